"""Two analysts with shares of one budget, over the wire, with passwords."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg import errors

ANALYSTS = {"alice": {"budget": {"epsilon": 0.2}}, "bob": {"budget": {"epsilon": 0.3}}}
PASSWORDS = {"alice": "a-secret", "bob": "b-secret", "carol": "c-secret"}
WOMEN = "SELECT count(*) FROM person WHERE sex = 'F'"
FRESH = f"SET dp.source = fresh; {WOMEN}"


@pytest.fixture
def shared(serve: Callable[..., Any]) -> Any:
    """A budget of 0.4, of which two analysts have 0.2 and 0.3; a statement costs 0.1."""
    return serve(0.1, analysts=ANALYSTS, passwords=PASSWORDS, budget={"epsilon": 0.4})


Connect = Callable[[str], psycopg.Connection[tuple[Any, ...]]]


@pytest.fixture
def connect(shared: Any) -> Any:
    opened: list[psycopg.Connection[Any]] = []

    def connect(user: str, **options: Any) -> psycopg.Connection[Any]:
        options = {"password": PASSWORDS[user]} | options
        opened.append(psycopg.connect(shared.address(user), autocommit=True, **options))
        return opened[-1]

    yield connect
    for connection in opened:
        connection.close()


def balances(connection: psycopg.Connection[Any]) -> dict[str | None, tuple[float | None, ...]]:
    rows = connection.execute("SELECT analyst, budget, spent, remaining FROM dp.budget").fetchall()
    return {row[0]: tuple(x if x is None else round(x, 9) for x in row[1:]) for row in rows}


def test_each_spends_a_share_and_all_the_budget(shared: Any, connect: Connect) -> None:
    alice, bob = connect("alice"), connect("bob")
    for _ in range(2):
        alice.execute(FRESH)
    with pytest.raises(errors.ConfigurationLimitExceeded) as own:
        alice.execute(FRESH)
    assert own.value.diag.message_primary == (
        'the share of analyst "alice" in the budget of table "person" does not allow this: it '
        "costs epsilon 0.1, and 0 remains for the records asked about most by this analyst"
    )
    assert "SET dp.source = history" in (own.value.diag.message_hint or "")
    # Bob's share is his own, until the table's budget is spent.
    for _ in range(2):
        bob.execute(FRESH)
    with pytest.raises(errors.ConfigurationLimitExceeded, match="the budget of table"):
        bob.execute(FRESH)
    assert balances(alice) == {None: (0.4, 0.4, 0.0), "alice": (0.2, 0.2, 0.0)}
    assert balances(bob) == {None: (0.4, 0.4, 0.0), "bob": (0.3, 0.2, 0.1)}
    assert shared.remaining() == 0


def test_what_one_bought_is_free_for_all(shared: Any, connect: Connect) -> None:
    alice, carol = connect("alice"), connect("carol")
    with pytest.raises(errors.ConfigurationLimitExceeded, match='"carol" has no share') as refused:
        carol.execute(WOMEN)
    assert "policy says who may spend" in (refused.value.diag.message_hint or "")
    bought = alice.execute(WOMEN).fetchall()
    told: list[str] = []
    carol.add_notice_handler(lambda notice: told.append(notice.message_primary or ""))
    assert carol.execute(WOMEN).fetchall() == bought
    assert told[0].endswith("0.3 of 0.4 remains for person; nothing of it for carol")
    assert balances(carol) == {None: (0.4, 0.1, 0.3), "carol": (0.0, None, 0.0)}
    # What depends on no record is exact and free, for her too.
    assert carol.execute("SELECT count(*) FROM person WHERE age < 0").fetchall() == [(0,)]
    assert shared.spent() == 0.1


ANOTHER_NAME = [
    "SET SESSION AUTHORIZATION bob",
    "SET SESSION AUTHORIZATION 'bob'",
    "SET LOCAL SESSION AUTHORIZATION bob",
    "SET session_authorization = 'bob'",
    "SET session_authorization TO bob",
    "SET ROLE bob",
    "SET SESSION ROLE bob",
    "SET ROLE = bob",
    "SET role TO 'bob'",
    "SET LOCAL ROLE bob",
    "SET user = bob",
    "SET current_user = bob",
    "SET dp.user = bob",
    "SET dp.analyst = bob",
    "SET analyst = bob",
    "RESET SESSION AUTHORIZATION; SET SESSION AUTHORIZATION bob",
    "SELECT set_config('session_authorization', 'bob', false)",
    "SELECT set_config('role', 'bob', false)",
    "ALTER ROLE alice RENAME TO bob",
    "GRANT bob TO alice",
]


@pytest.mark.parametrize("naming", ANOTHER_NAME)
def test_nobody_spends_by_another_name(connect: Connect, naming: str) -> None:
    alice = connect("alice")
    with pytest.raises(psycopg.Error):
        alice.execute(naming)
    assert alice.execute("SELECT current_user, session_user").fetchone() == ("alice", "alice")
    alice.execute("DISCARD ALL")
    alice.execute(f"{WOMEN} -- bob")
    assert connect("bob").execute("SELECT DISTINCT analyst FROM dp.history").fetchall() == [
        ("alice",)
    ]


@pytest.mark.parametrize("option", ["session_authorization", "role", "dp.user", "user"])
def test_nobody_connects_by_another_name(connect: Any, option: str) -> None:
    with pytest.raises(psycopg.Error):
        connect("alice", options=f"-c {option}=bob")


def test_another_needs_the_others_password(shared: Any, connect: Any) -> None:
    for wrong in (PASSWORDS["alice"], "", "b-secret "):
        with pytest.raises(psycopg.OperationalError):
            connect("bob", password=wrong)
    # An application's name or a database of that name is no user.
    alice = connect("alice", application_name="bob", dbname="bob")
    alice.execute(WOMEN)
    assert balances(connect("bob"))["bob"] == (0.3, 0.0, 0.3)
    assert shared.spent() == 0.1


def test_explain_and_the_notice_tell_both(connect: Connect) -> None:
    alice = connect("alice")
    told: list[str] = []
    alice.add_notice_handler(lambda notice: told.append(notice.message_primary or ""))
    alice.execute(WOMEN)
    assert told[0].endswith("0.3 of 0.4 remains for person; 0.1 of 0.2 of it for alice")
    lines = [row[0] for row in alice.execute("EXPLAIN SELECT count(*) FROM person").fetchall()]
    assert lines[-2:] == [
        "Cost: epsilon 0.1 of alice's share of person's budget; 0.1 remains, 0 after",
        "Cost: epsilon 0.1 of person's budget; 0.3 remains, 0.2 after",
    ]
    for user, share in (("bob", "0.3 remains: it would"), ("carol", "0 remains: it would")):
        connection = connect(user)
        connection.execute("SET dp.epsilon = 0.35")
        plan = connection.execute("EXPLAIN SELECT count(*) FROM person").fetchall()
        assert f"{user}'s share of person's budget; {share} be refused" in plan[-2][0]


def test_history_reads_the_odometer(connect: Connect) -> None:
    alice, bob = connect("alice"), connect("bob")
    alice.execute(WOMEN)
    bob.execute("SELECT count(*) FROM person WHERE sex = 'M'")
    bob.execute("SELECT count(*) FROM person WHERE age < 30")
    rows = alice.execute("SELECT analyst, cost, spent FROM dp.history ORDER BY charge_id")
    assert rows.fetchall() == [("alice", 0.1, 0.1), ("bob", 0.1, 0.1), ("bob", 0.1, 0.2)]


def test_the_most_expensive_cells_are_told(connect: Connect) -> None:
    alice, bob = connect("alice"), connect("bob")
    query = "SELECT analyst, most_expensive FROM dp.budget"
    assert bob.execute(query).fetchall() == [(None, None), ("bob", None)]
    alice.execute("SELECT count(*) FROM person WHERE age >= 30 AND age < 40")
    bob.execute("SELECT state, count(*) FROM person WHERE sex = 'F' GROUP BY state")
    assert bob.execute(query).fetchall() == [
        (None, "age = 30 to 39, sex = F"),
        ("bob", "sex = F"),
    ]


def test_shares_outlive_the_server(serve: Callable[..., Any]) -> None:
    first = serve(0.1, analysts=ANALYSTS)
    with psycopg.connect(first.address("alice"), autocommit=True) as alice:
        alice.execute(FRESH)
        again = serve(0.1, analysts=ANALYSTS)  # another gate on the same ledger
        with psycopg.connect(again.address("alice"), autocommit=True) as elsewhere:
            elsewhere.execute(FRESH)
            with pytest.raises(errors.ConfigurationLimitExceeded, match="the share of"):
                elsewhere.execute(FRESH)
        with pytest.raises(errors.ConfigurationLimitExceeded, match="the share of"):
            alice.execute(FRESH)


def test_without_shares_the_budget_has_one_row(serve: Callable[..., Any]) -> None:
    house = serve(0.1)
    with house.connect() as connection:
        connection.execute(WOMEN)
        rows = connection.execute("SELECT analyst, spent, most_expensive FROM dp.budget")
        assert rows.fetchall() == [(None, 0.1, "sex = F")]


@pytest.mark.parametrize(
    ("budget", "share"),
    [
        ({"rho": 0.02, "delta": 1e-9}, {"rho": 0.01}),
        ({"epsilon": 2, "delta": 1e-9}, {"epsilon": 1}),
    ],
)
def test_shares_of_rho(serve: Callable[..., Any], budget: Any, share: Any) -> None:
    house = serve(0.1, analysts={"alice": {"budget": share}}, budget=budget)
    with house.connect() as connection:
        connection.execute("SET dp.rho = 0.004")
        connection.execute(FRESH)
        rows = connection.execute(
            "SELECT analyst, unit, spent, delta, epsilon_budget, remaining FROM dp.budget"
        ).fetchall()
        (whole, own) = rows
        assert (whole[1:4], own[1:4]) == (("rho", 0.004, 1e-9),) * 2
        assert own[0] == "alice"
        assert own[4] < whole[4]
        assert 0 < own[5] < whole[5]
        if "epsilon" in share:
            assert own[4] == 1
        with pytest.raises(errors.ConfigurationLimitExceeded, match="the share of"):
            connection.execute("SET dp.rho = 0.0199; SET dp.source = fresh; " + WOMEN)
