"""Counts with a public range: where n is from, what is refused, what history may answer."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

import tallyveil
from tallyveil.mechanisms import CountMechanism, counts, mechanism
from tallyveil.mechanisms.matrix.privacy_level import MAX_RANGE
from tallyveil.policy.value_checks import MAX_COUNT
from tests.gate.asking import Connect, ask, spent
from tests.pairs import alternately

# 80 ages, 37 or 38 records of each.
BY_AGE = {"at_most": 50, "by": ["age"]}
ONE_AGE = "SELECT count(*) AS n FROM person WHERE age = 7"
AGES = (
    "SELECT age, count(*) AS n, dp_interval_low(n), dp_interval_high(n) FROM person"
    " WHERE age < 4 GROUP BY age"
)


def used(connection: tallyveil.Connection) -> list[str]:
    return [name for (name,) in connection.execute("SELECT mechanism FROM dp.history").fetchall()]


def use(connection: tallyveil.Connection, name: str) -> None:
    connection.execute(f"SET dp.mechanism = '{name}'")


def test_the_policy_offers_the_ranges_there_are_mechanisms_for() -> None:
    assert MAX_COUNT == MAX_RANGE


@pytest.mark.parametrize(
    "name",
    [
        "fair(n=50)",
        "truncated_geometric(n=40)",
        "weakly_honest(n=12)",
        "designed(n=10, properties=ch+cm+wh)",
    ],
)
def test_answers_and_intervals_stay_in_the_range(connect: Connect, name: str) -> None:
    connection = connect()
    use(connection, name)
    rows = connection.execute(AGES).fetchall()
    noise = mechanism(name)
    assert isinstance(noise, CountMechanism)
    assert len(rows) == 4
    for _, n, low, high in rows:
        assert 0 <= low <= high <= noise.n
        assert 0 <= n <= noise.n
    assert spent(connection) == 0.1
    assert used(connection) == [name]


def test_a_plain_word_takes_n_from_the_policy_and_says_so(connect: Connect) -> None:
    connection = connect(count_range=BY_AGE)
    use(connection, "fair")
    assert "by fair(n=50), n from the policy's count_range" in connection.explain(AGES)
    (notice,) = connection.execute(AGES).notices
    assert "by fair(n=50), n from the policy's count_range" in notice.message
    assert "interval of width" in notice.message
    use(connection, "fair(n=50)")
    (notice,) = connection.execute(AGES).notices
    assert notice.message.startswith("answered from history, free")
    assert "by fair(n=50);" in notice.message


@pytest.mark.parametrize(
    ("where", "known"),
    [
        ("age = 7", True),
        ("age = 7 AND sex = 'F'", True),
        ("age = 7 AND (sex = 'F' OR state = 'AL')", True),
        ("age IN (7, 8)", False),
        ("sex = 'F'", False),
        ("age = 7 OR sex = 'F'", False),
        ("true", False),
    ],
)
def test_a_range_holds_within_the_groups_it_is_vouched_for(
    connect: Connect, where: str, known: bool
) -> None:
    connection = connect(count_range=BY_AGE)
    query = f"SELECT count(*) FROM person WHERE {where}"
    use(connection, "fair")
    if known:
        connection.execute(query)
        assert used(connection) == ["fair(n=50)"]
        return
    for tried in (connection.execute, connection.explain):
        with pytest.raises(tallyveil.Error, match="the policy declares none") as caught:
            tried(query)
        assert "fair(n=…)" in str(caught.value.hint)


def test_a_public_number_of_records_is_a_range(
    connect: Connect, source: duckdb.DuckDBPyConnection
) -> None:
    source.execute("CREATE TABLE few AS SELECT i % 10 AS age FROM range(30) t(i)")
    attributes = {"age": {"range": [0, 99], "clamp": True, "nullable": True}}
    replace = {"neighbours": "replace", "attributes": attributes}
    connection = connect(**replace | {"from": "few"})
    use(connection, "fair")
    assert "fair(n=30), n from the public number" in connection.explain(ONE_AGE)
    connection.execute(ONE_AGE)
    assert connection.execute("SELECT count(*) FROM person").fetchall() == [(30,)]
    assert used(connection)[0] == "fair(n=30)"
    assert spent(connection) == 0.1


def test_a_number_of_records_beyond_every_range_is_none(connect: Connect) -> None:
    attributes = {"age": {"range": [0, 99], "clamp": True, "nullable": True}}
    connection = connect(neighbours="replace", attributes=attributes)
    use(connection, "fair")
    with pytest.raises(tallyveil.Error, match="the policy declares none"):
        connection.execute(ONE_AGE)


@pytest.mark.parametrize(
    ("settings", "query", "says"),
    [
        (["fair(n=9)"], "SELECT sum(age) FROM person", "answers counts only"),
        (["fair(n=9)"], "SELECT avg(age) FROM person WHERE sex = 'F'", "answers counts only"),
        (["fair"], "SELECT sum(age) FROM person", "the policy declares none"),
        (["designed(n=160, objective=l1)"], ONE_AGE, "too many to design a mechanism for"),
        (["fair(n=9)", "SET dp.half_width = 5"], ONE_AGE, "depends on the answer"),
    ],
)
def test_what_cannot_serve_is_refused_before_anything_is_charged(
    connect: Connect, settings: list[str], query: str, says: str
) -> None:
    connection = connect()
    use(connection, settings[0])
    for setting in settings[1:]:
        connection.execute(setting)
    for tried in (connection.execute, connection.explain):
        with pytest.raises(tallyveil.Error, match=says) as caught:
            tried(query)
        assert caught.value.hint
    assert spent(connection) == 0


def test_grouping_sets_are_asked_one_by_one(connect: Connect) -> None:
    query = "SELECT state, sex, count(*) FROM person WHERE age = 7 GROUP BY CUBE (state, sex)"
    connection = connect(count_range=BY_AGE)
    use(connection, "fair")
    rows = connection.execute(query).fetchall()
    assert len(rows) == 6 * 4
    assert all(0 <= n <= 50 for *_, n in rows)


def test_history_answers_a_mechanism_from_itself(connect: Connect) -> None:
    connection = connect()
    use(connection, "fair(n=50)")
    first = connection.execute(AGES).fetchall()
    assert ask(connection, AGES, epsilon=0.05) == first
    assert connection.execute("SELECT count(*) AS n FROM person WHERE age = 3").fetchall() == [
        (first[3][1],)
    ]
    assert spent(connection) == 0.1
    for other in ("fair(n=49)", "truncated_geometric(n=50)", "laplace"):
        use(connection, other)
        assert ask(connection, ONE_AGE.replace("7", "3"), source="history") == [(None,)]
        ask(connection, ONE_AGE.replace("7", "3"), source="auto")
    assert spent(connection) == pytest.approx(0.25)


def test_only_the_rows_that_are_missing_are_bought(connect: Connect) -> None:
    connection = connect()
    use(connection, "fair(n=50)")
    (known,) = connection.execute("SELECT count(*) FROM person WHERE age = 2").fetchall()
    rows = connection.execute(AGES).fetchall()
    assert rows[2][1] == known[0]
    bought = connection.execute("SELECT rows FROM dp.history").fetchall()
    assert bought == [(1,), (3,)]
    assert spent(connection) == 0.1


@pytest.mark.parametrize("epsilon", [0.02, 0.1, 2])
def test_auto_is_unbiased_whatever_the_range_and_the_cost(connect: Connect, epsilon: float) -> None:
    connection = connect(budget={"epsilon": 10}, count_range=BY_AGE, neighbours="replace")
    ask(connection, AGES, epsilon=epsilon)
    ask(connection, ONE_AGE, half_width=40)
    assert set(used(connection)) == {"laplace"}


@pytest.mark.parametrize(("exact", "epsilon"), alternately([True, False], [0.3, 0.1, 0.05]))
def test_groups_within_groups_add_up_to_what_was_reported(
    connect: Connect, source: duckdb.DuckDBPyConnection, exact: bool, epsilon: float
) -> None:
    """Also where all records are so few that every count has a public range."""
    source.execute("CREATE TABLE few AS SELECT i % 3 AS a, i // 3 % 3 AS b FROM range(324) t(i)")
    by_a = "SELECT a, count(*) FROM person GROUP BY a"
    connection = connect(
        **{"from": "few", "neighbours": "replace", "budget": {"epsilon": 9}},
        attributes={"a": {"range": [0, 2]}, "b": {"range": [0, 2]}},
        invariants=[{"sql": by_a}] if exact else [],
    )
    ask(connection, "SELECT a, b, count(*) FROM person GROUP BY a, b", epsilon=epsilon)
    both = "SELECT a, b, count(*) AS n FROM person GROUP BY ROLLUP (a, b)"
    cells = ask(connection, both)
    totals = {a: n for a, b, n in cells if b is None}
    for a in range(3):
        assert sum(n for own, b, n in cells if own == a and b is not None) == totals[a]
    assert not exact or totals == {0: 108, 1: 108, 2: 108, None: 324}


@pytest.mark.parametrize("name", ["fair", "truncated_geometric(n=40)", "auto(properties=wh)"])
def test_rows_that_exact_counts_tie_together_are_refused(connect: Connect, name: str) -> None:
    """Each age is counted in 50 at most. Of one age all states are exact together, but not some."""
    by_age = "SELECT age, count(*) FROM person GROUP BY age"
    connection = connect(neighbours="replace", count_range=BY_AGE, invariants=[{"sql": by_age}])
    use(connection, name)
    of_states = "SELECT state, count(*) FROM person WHERE age = 7 GROUP BY state"
    for tried in (connection.execute, connection.explain):
        with pytest.raises(tallyveil.Error, match="exact counts, which tie the rows together"):
            tried(of_states)
    assert spent(connection) == 0
    some = of_states.replace("WHERE", "WHERE state IN ('AL', 'AK') AND")
    notices = [one.message for one in connection.execute(some).notices]
    assert any("such answers are biased and need not add up" in one for one in notices)
    assert connection.execute(by_age).fetchall()[7] == (7, 38)


def test_a_policy_restricts_to_families_or_to_single_mechanisms(connect: Connect) -> None:
    connection = connect(mechanisms=["fair", "truncated_geometric(n=8)"], count_range=BY_AGE)
    for name in ("fair", "fair(n=3)", "truncated_geometric(n=8)"):
        use(connection, name)
        connection.execute(ONE_AGE)
    assert used(connection) == ["fair(n=50)", "fair(n=3)", "truncated_geometric(n=8)"]
    for name in ("laplace", "truncated_geometric(n=9)"):
        use(connection, name)
        with pytest.raises(tallyveil.Error, match="not among the mechanisms") as caught:
            connection.execute(ONE_AGE)
        assert "'fair(n=…)', 'truncated_geometric(n=8)'" in str(caught.value.hint)
    use(connection, "auto")
    with pytest.raises(tallyveil.Error, match="no mechanism of table") as caught:
        connection.execute("SELECT sum(age) FROM person WHERE age = 7")
    assert "ask for plain counts" in str(caught.value.hint)
    with pytest.raises(tallyveil.Error, match="no mechanism of table") as caught:
        connection.execute(ONE_AGE)
    assert "auto takes unbiased noise" in str(caught.value.hint)
    assert "'fair(n=…)'" in str(caught.value.hint)


def test_a_ledger_is_opened_without_working_anything_out(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = connect()
    use(connection, "designed(n=12, properties=cm, objective=l1)")
    answers = connection.execute(AGES).fetchall()
    connection.close()
    with monkeypatch.context() as patched:
        patched.setattr(counts, "_matrix", None)
        connection = connect()
        assert spent(connection) == 0.1
    use(connection, "designed(n=12, properties=cm, objective=l1)")
    assert connection.execute(AGES).fetchall() == answers
    assert spent(connection) == 0.1


def test_in_a_budget_of_rho_it_costs_half_its_square(connect: Connect) -> None:
    connection = connect(budget={"rho": 0.1, "delta": 1e-6}, defaults={"epsilon": 0.1})
    use(connection, "fair(n=50)")
    connection.execute(AGES)
    assert spent(connection) == 0.005


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        (0, "count_range.at_most = 0: expected a whole number from 1 to 500"),
        (501, "expected a whole number from 1 to 500"),
        ("20", "expected a whole number or { at_most"),
        ({"by": ["age"]}, "count_range.at_most: missing"),
        ({"at_most": 9, "by": "age"}, "expected a list of attributes"),
        ({"at_most": 9, "by": ["house"]}, '"house" is not one'),
        ({"at_most": 9, "over": ["age"]}, "count_range.over"),
    ],
)
def test_a_wrong_range_is_a_mistake_of_the_policy(
    connect: Connect, declared: Any, says: str
) -> None:
    with pytest.raises(tallyveil.Error) as caught:
        connect(count_range=declared)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("mechanisms", "says"),
    [
        (["fair(n=20"], "expected the name of a mechanism"),
        (["fair(m=20)"], "fair has no parameter m"),
        (["RR"], "RR is for comparison only"),
    ],
)
def test_a_wrong_mechanism_is_a_mistake_of_the_policy(
    connect: Connect, mechanisms: list[str], says: str
) -> None:
    with pytest.raises(tallyveil.Error) as caught:
        connect(mechanisms=mechanisms)
    assert says in str(caught.value)


def test_the_names_of_the_paper_are_accepted_by_policy_and_settings(connect: Connect) -> None:
    """WM takes its n from the policy, and is allowed there without one."""
    connection = connect(
        {"epsilon": 0.1, "mechanism": "EM"}, mechanisms=["EM", "WM"], count_range=BY_AGE
    )
    connection.execute(ONE_AGE)
    use(connection, "WM")
    connection.execute(ONE_AGE)
    monotone = "designed(n=9, properties=ch+cm+rh+rm+wh)"
    use(connection, "WM(n=9)")
    connection.execute(ONE_AGE)
    assert used(connection) == ["fair(n=50)", monotone.replace("n=9", "n=50"), monotone]
    use(connection, "best")
    with pytest.raises(tallyveil.Error, match="not among the mechanisms of its policy") as caught:
        connection.execute(ONE_AGE)
    assert "'designed(n=…, properties=ch+cm+rh+rm+wh)'" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("table", "settings", "sql", "hint"),
    [
        (
            {"mechanisms": ["fair", "designed(n=9)"], "count_range": BY_AGE},
            [],
            "SELECT sex, count(*) FROM person WHERE age = 7 GROUP BY ROLLUP (sex)",
            "to one of: 'fair(n=…)', 'designed(n=9)'; n is",
        ),
        (
            {"mechanisms": ["fair"], "count_range": BY_AGE},
            ["SET dp.half_width = 9"],
            ONE_AGE,
            "'fair(n=…)', and SET dp.epsilon",
        ),
        ({"mechanisms": ["fair"]}, [], ONE_AGE, "'fair(n=…)'; n is"),
        (
            {"mechanisms": ["gaussian"], "budget": {"rho": 1, "delta": 1e-6}},
            ["SET dp.epsilon = 0.1"],
            ONE_AGE,
            "SET dp.rho instead, or SET dp.mechanism to one of: gaussian.",
        ),
    ],
)
def test_where_auto_can_take_none_it_says_what_to_set(
    connect: Connect, table: Any, settings: list[str], sql: str, hint: str
) -> None:
    connection = connect(**table)
    for statement in settings:
        connection.execute(statement)
    with pytest.raises(tallyveil.Error, match="no mechanism of table") as caught:
        connection.execute(sql)
    assert hint in str(caught.value.hint)
    assert spent(connection) == 0


def test_what_the_hint_says_for_grouping_sets_works(connect: Connect) -> None:
    connection = connect(mechanisms=["fair"], count_range=BY_AGE)
    use(connection, "fair")
    connection.execute("SELECT sex, count(*) FROM person WHERE age = 7 GROUP BY ROLLUP (sex)")
    assert used(connection) == ["fair(n=50)"]
    assert spent(connection) == 0.1
