"""Two analysts with shares of one budget, over the wire, with passwords."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.pairs import one_in

ANALYSTS = {"alice": {"budget": {"epsilon": 0.2}}, "bob": {"budget": {"epsilon": 0.3}}}
PASSWORDS = {"alice": "a-secret", "bob": "b-secret", "carol": "c-secret"}
WOMEN = "SELECT count(*) FROM person WHERE sex = 'F'"


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


@pytest.mark.parametrize("naming", one_in(2, ANOTHER_NAME))
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
