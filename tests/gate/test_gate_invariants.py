"""Counts that a policy publishes exactly: exact and free, with all other answers in agreement."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import duckdb
import pytest

import tallyveil
from tallyveil.accountant.budgets.filters import Filters
from tallyveil.errors import BudgetExceeded, LedgerMismatch, PolicyError
from tests.gate.asking import Connect, ask, spent
from tests.pairs import one_in, pairs

BY_STATE = "SELECT state, count(*) FROM person GROUP BY state"
STATES = {"AL": 1000, "AK": 1000, "WY": 1000, "other": 0, None: 0}


def invariants(*sql: str, **more: Any) -> dict[str, Any]:
    return {"neighbours": "replace", "invariants": [{"sql": one, **more} for one in sql]}


def refused(connect: Connect, *sql: str, **table: Any) -> str:
    with pytest.raises(PolicyError) as found:
        connect(**invariants(*sql) | table)
    (mistake,) = found.value.mistakes
    return mistake


ADDING_UP = (
    "SELECT state, sex, count(*) FROM person GROUP BY state, sex",
    "SELECT state, age, sex, count(*) FROM person GROUP BY state, age, sex",
    "SELECT state, count(*) FILTER (WHERE age < 30), count(*) FILTER (WHERE age >= 30),"
    " count(*) FILTER (WHERE age IS NULL) FROM person GROUP BY state",
)


@pytest.mark.parametrize(
    "settings",
    [
        "SET dp.source = auto",
        "SET dp.source = fresh; SET dp.coverage = always",
        "SET dp.half_width = 40; SET dp.mechanism = gaussian",
    ],
)
def test_answers_agree_with_the_invariants(connect: Connect, settings: str) -> None:
    """As integers, exactly: of groups by themselves, of 1,500 of them, of several columns; asked
    once, again, from history, and after another statement."""
    connection = connect(**invariants(BY_STATE), budget={"epsilon": 1000, "delta": 1e-9})
    for again in (settings, settings, "SET dp.source = history"):
        for one in again.split("; "):
            connection.execute(one)
        for sql in ADDING_UP:
            found: dict[str | None, int] = {}
            for state, *rest in connection.execute(sql).fetchall():
                counts = rest if "FILTER" in sql else rest[-1:]
                found[state] = found.get(state, 0) + sum(counts)
            assert found == STATES


def test_answers_of_thousands_of_rows_agree(connect: Connect) -> None:
    attributes = {
        "state": {"values": ["AL", "AK", "WY"], "other": True, "nullable": True},
        "n": {"range": [0, 899], "clamp": True, "nullable": True, "column": "age"},
    }
    connection = connect(**invariants(BY_STATE), attributes=attributes, budget={"epsilon": 100})
    sql = "SELECT state, n, count(*) FROM person GROUP BY state, n"
    for source in ("auto", "fresh", "auto", "history"):
        found = ask(connection, sql, source=source)
        assert len(found) == 5 * 901
        for state, total in STATES.items():
            assert sum(count for own, _, count in found if own == state) == total


@pytest.mark.parametrize(
    ("cost", "level"),
    [
        pytest.param(0.1, 0.8, marks=pytest.mark.slow),
        pytest.param(0.1, 0.95, marks=pytest.mark.slow),
        (1.5, 0.8),
        pytest.param(1.5, 0.95, marks=pytest.mark.slow),
    ],
)
def test_intervals_hold_the_truth_as_often_as_they_say(
    connect: Connect, cost: float, level: float
) -> None:
    """450 of them, around values that are moved and rounded to agree, which matters
    where the noise is little: its deviation is 28.3, and 1.8. The share that holds lies within 5
    standard errors of what is said, or above: in one of 10⁶ runs it does not, where the answers of
    one statement are as one."""
    connection = connect({"epsilon": cost}, **invariants(BY_STATE), budget={"epsilon": 1000})
    connection.execute("SET dp.source = fresh")
    truth = {
        (state, sex): 500 if state in ("AL", "AK", "WY") and sex != "other" else 0
        for state in STATES
        for sex in ("F", "M", "other")
    }
    sql = (
        "SELECT state, sex, count(*) AS n, dp_interval_low(n), dp_interval_high(n) FROM person"
        " GROUP BY state, sex"
    )
    connection.execute(f"SET dp.confidence = {level}")
    held, off, times = 0, dict.fromkeys(truth, 0), 30
    for _ in range(times):
        for state, sex, count, low, high in connection.execute(sql).fetchall():
            true = truth[state, sex]
            held += low <= true <= high
            off[state, sex] += count - true
    error = math.sqrt(level * (1 - level) / times)
    assert held / (times * len(truth)) >= level - 5 * error
    # The noise's standard deviation is √2 · 2/ε at most, and what is rounded is 1 off at most.
    assert max(map(abs, off.values())) / times < 6 * (2.83 / cost + 1) / math.sqrt(times)


def test_fresh_intervals_are_those_of_what_is_told(connect: Connect) -> None:
    """By the law of three groups' errors, not by a bound of its tails that is 3.9 deviations."""
    connection = connect(**invariants(BY_STATE))
    connection.execute("SET dp.source = fresh")
    ends = "count(*) AS n, dp_interval_low(n), dp_interval_high(n), dp_stddev(n)"
    for *_, low, high, deviation in connection.execute(
        f"SELECT sex, {ends} FROM person WHERE state = 'AL' GROUP BY sex"
    ).fetchall():
        assert 3.9 * deviation < high - low < 4.4 * deviation


def test_invariants_of_another_table_with_the_same_records_are_said(
    source: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    """Else a table of the same source would promise more than its other name leaves: two tables
    that differ in one record's state are told apart by the states' exact totals."""
    plain = {"budget": {"epsilon": 1.0}, "attributes": {"sex": {"values": ["F", "M"]}}}
    states = plain["attributes"] | {"state": {"values": ["AL", "AK", "WY"]}}
    tables = {
        "person": plain | {"from": "people", "attributes": states} | invariants(BY_STATE),
        "member": plain | {"from": "SELECT * FROM people", "neighbours": "replace"},
        "half": plain
        | {"from": "people", "neighbours": "add_remove"}
        | invariants("SELECT count(*) FROM half WHERE sex = 'F'"),
        "other": plain | {"from": "elsewhere", "neighbours": "add_remove"},
    }
    source.execute("CREATE TABLE elsewhere AS SELECT * FROM people")
    policy = tallyveil.parse_policy({"tables": tables}, base=tmp_path)
    with tallyveil.connect(policy, source=source) as connection:
        said = dict(connection.execute("SELECT table_name, guarantee FROM dp.budget").fetchall())
        ask(connection, "SELECT count(*) FROM member WHERE sex = 'F'", epsilon=0.1)
        assert any(said["member"] in notice.message for notice in connection.notices)
    assert said["person"].startswith(
        "for any two tables that agree on the invariants, also those of half, which may count the"
        " same records, and differ in one record's value, the probability"
    )
    assert said["member"] == (
        "for any two tables that agree on the invariants of person, half, which may count the same"
        " records, and differ in one record's value, the probability of any answers differs by a"
        " factor of at most exp(1); the invariants are exact and have no protection"
    )
    assert "also those of person, which may" in said["half"]
    assert said["other"].startswith("for any two tables that differ in the presence of one record,")


@pytest.mark.parametrize(
    ("sql", "says", "character"),
    [
        ("SELECT avg(age) FROM person", "linear", 8),
        ("SELECT state, count(*) / 2 FROM person GROUP BY state", "linear", 15),
        ("SELECT state, count(*) FROM person GROUP BY state HAVING count(*) > 3", "HAVING", None),
        ("SELECT state, count(*) FROM person GROUP BY state LIMIT 3", "LIMIT", None),
        ("SELECT sum(n) FROM (SELECT count(*) AS n FROM person GROUP BY state) t", "once", None),
        ("SELECT count(*) FROM person WHERE age < extract(year FROM now())", "the time", 59),
        ("SELECT count(*) FROM person WHERE state = current_user", "not on a session", None),
        ("SELECT count(*) FROM person WHERE age < $1", "session or parameter", None),
        ("SELECT state FROM person", "count", None),
        ("SELECT count(DISTINCT age) FROM person", "linear", 8),
        ("SELECT count(*) FROM person WHERE height > 3", "height", 35),
        ("SELECT count(*) FROM people", "people", 22),
        ("SELECT row_number() OVER (), count(*) FROM person", "window", 8),
        ("SELECT sex, sum(age) FROM person GROUP BY 1 ORDER BY count(*)", "SELECT list", 54),
        (
            "SELECT sum(age) - count(*) FROM person ORDER BY sum(age)",
            "only by aggregates in its SELECT list",
            49,
        ),
        ("SELECT 0 * count(*) FROM person", "always 0", 8),
    ],
)
def test_what_is_no_linear_count_is_refused_at_its_place(
    connect: Connect, sql: str, says: str, character: int | None
) -> None:
    mistake = refused(connect, sql)
    assert mistake.startswith("tables.person.invariants[0].sql = ")
    assert sql in mistake
    assert says in mistake
    if character is not None:
        assert f", character {character}:" in mistake


@pytest.fixture
def people(source: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    source.execute("INSERT INTO people SELECT 'AK', 99, 'F' FROM range(3)")
    return source


def test_a_small_count_is_acknowledged_by_name(
    people: duckdb.DuckDBPyConnection, connect: Connect
) -> None:
    old = "SELECT state, count(*) FROM person WHERE age > 90 GROUP BY state"
    name = "state = 'AK' AND age BETWEEN 91 AND 99"
    mistake = refused(connect, old)
    assert "1 counts of fewer than 10 records would be exact" in mistake
    assert f'acknowledge = ["{name}"]' in mistake
    slip = invariants(old, acknowledge=[name, "state = 'AK'"])["invariants"]
    mistake = refused(connect, invariants=slip)
    assert "acknowledge names no exact count: state = 'AK'" in mistake
    large = "state = 'AL' AND age BETWEEN 91 AND 99"  # it may be small when the data change
    connection = connect(**invariants(old, acknowledge=[name, large]))
    assert ("AK", 3) in connection.execute(old).fetchall()


def test_an_invariant_may_come_later_and_stays(
    connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    connection = connect(neighbours="replace")
    asked = "SELECT sex, count(*) FROM person WHERE state = 'AL' GROUP BY sex"
    before = connection.execute(asked).fetchall()
    connection.close()
    with caplog.at_level("INFO", logger="tallyveil"):
        connection = connect(**invariants(BY_STATE))
    (event,) = [r for r in caplog.records if r.message == "invariant published"]
    assert vars(event)["fields"] == {"table": "person", "statement": BY_STATE}
    assert dict(connection.execute(BY_STATE).fetchall()) == STATES
    after = connection.execute(asked).fetchall()
    assert connection.budget()[0]["spent"] == pytest.approx(0.1)
    assert {sex for sex, _ in before} == {sex for sex, _ in after}
    connection.close()
    with pytest.raises(LedgerMismatch, match="no longer declares") as found:
        connect(neighbours="replace")
    assert BY_STATE in str(found.value.hint)
    finer = "SELECT state, sex, count(*) FROM person GROUP BY state, sex"
    assert dict(connect(**invariants(finer)).execute(BY_STATE).fetchall()) == STATES


def test_counts_of_a_public_table(source: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    source.execute(
        "CREATE TABLE census AS SELECT * FROM (VALUES ('AL', 1000), ('WY', 1000)) t(state, persons)"
    )
    source.execute(
        "CREATE TABLE wrong AS SELECT * FROM (VALUES ('AL', 1000), ('WY', 1001)) t(state, persons)"
    )
    source.execute("CREATE TABLE twice AS SELECT 'AL' AS state, 1000 AS persons FROM range(2)")
    source.execute("CREATE TABLE truth AS SELECT 'AL' AS state, true AS persons")
    source.execute("CREATE TABLE beyond AS SELECT 'CA' AS state, 1000 AS persons")

    def connect(name: str) -> tallyveil.Connection:
        table = {
            "from": "people",
            "budget": {"epsilon": 1.0},
            "attributes": {
                "state": {"values": ["AL", "AK", "WY"], "other": True, "nullable": True},
                "age": {"range": [0, 99], "clamp": True, "nullable": True},
            },
            "invariants": [{"from_public": name}],
        }
        public = {n: {"from": n} for n in ("census", "wrong", "twice", "truth", "beyond")}
        policy = tallyveil.parse_policy(
            {"tables": {"person": table}, "public": public}, base=tmp_path
        )
        return tallyveil.connect(policy, source=source)

    for name, says in (
        ("wrong.persons", "1 differ: state = 'WY'"),
        ("census.people", "it has no column people"),
        ("twice.persons", "two rows with the same state"),
        ("beyond.persons", "others (1), such as CA"),
        ("census.state", "whole numbers"),
        ("truth.persons", "a row of truth has True"),
    ):
        with pytest.raises(PolicyError) as found:
            connect(name)
        assert says in found.value.mistakes[0]
    connection = connect("census.persons")
    both = "SELECT count(*) FROM person WHERE state IN ('AL', 'WY')"
    assert connection.execute(both).fetchall() == [(2000,)]
    assert connection.execute("SELECT source, counted FROM dp.invariants").fetchall() == [
        ("census.persons", "state = 'AL'"),
        ("census.persons", "state = 'WY'"),
    ]
    connection.close()


WOMEN = "SELECT sex, count(*) FROM person WHERE sex <> 'other' GROUP BY sex"
OLD = "SELECT count(*) FROM person WHERE sex = 'F' AND age {}"


def test_thousands_of_groups_under_exact_totals_take_little_longer(
    connect: Connect, source: duckdb.DuckDBPyConnection
) -> None:
    """In processor time: twice as long on a quiet machine, a millisecond for 300 rows."""
    counties = [f"{state:02d}{n:03d}" for state in range(50) for n in range(1, 63)]
    source.execute("CREATE TABLE counties AS SELECT unnest(?) AS county", [counties])
    sql = "SELECT county, count(*) FROM person GROUP BY county"
    declared = {
        "from": "counties",
        "attributes": {"county": {"values": counties}},
        "budget": {"epsilon": 1e6},
    }
    by_state = "SELECT left(county, 2) AS state, count(*) FROM person GROUP BY 1"
    least = []
    for more in ({}, {"invariants": [{"sql": by_state}]}):
        connection = connect(neighbours="replace", **declared, **more)
        connection.execute("SET dp.source = fresh")
        times = []
        for _ in range(8):
            start = time.process_time()
            found = dict(connection.execute(sql).fetchall())
            times.append(time.process_time() - start)
        least.append(min(times))
        connection.close()
    assert sum(n for county, n in found.items() if county < "01") == 62
    assert least[1] < 4 * least[0]


def test_translates_are_given_up_without_working_out_earlier_charges(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many there are: neither for the decision and the charge, nor for a refusal, nor in
    another process."""
    declared: Any = {"neighbours": "add_remove", "invariants": [{"sql": WOMEN}]}
    buyer, other = (connect(**declared, budget={"epsilon": 1.0}) for _ in range(2))
    for age in range(20):
        buyer.execute(OLD.format(f"= {age}"))
    assert spent(buyer) == spent(other) == pytest.approx(1.0)
    composed = list[str]()
    after = Filters.after

    def counted(filters: Filters, table: str, *arguments: Any, **options: Any) -> Filters:
        composed.append(table)
        return after(filters, table, *arguments, **options)

    monkeypatch.setattr(Filters, "after", counted)
    buyer.execute(OLD.format("= 40"))
    assert spent(buyer) == pytest.approx(0.1)
    assert len(composed) <= 5
    composed.clear()
    assert spent(other) == pytest.approx(0.1)
    assert len(composed) == 1
    composed.clear()
    with pytest.raises(BudgetExceeded):
        ask(buyer, OLD.format("= 40"), epsilon=2.5, source="fresh")
    assert len(composed) <= 10


@pytest.mark.parametrize(
    "sizes", [(12, 20, 20), pytest.param((5, 100, 200), marks=pytest.mark.slow)]
)
def test_both_margins_of_many_tables_are_met(
    connect: Connect, source: duckdb.DuckDBPyConnection, sizes: tuple[int, ...]
) -> None:
    """4,800 cells in 480 sums, two for each; and 100,000 in 1,500."""
    tables, hours, teams = sizes
    source.execute(
        "CREATE TABLE visits AS SELECT b.i AS building, h.i AS hour, t.i AS team"
        f" FROM range({tables}) b(i), range({hours}) h(i), range({teams}) t(i)"
    )
    by = "SELECT building, {0}, count(*) FROM person GROUP BY building, {0}"
    names = ("building", "hour", "team")
    connection = connect(
        **invariants(by.format("hour"), by.format("team")),
        **{"from": "visits"},
        attributes={n: {"range": [0, size - 1]} for n, size in zip(names, sizes, strict=True)},
    )
    rows = connection.execute(by.format("hour, team")).fetchall()
    sums: dict[tuple[str, int, int], int] = {}
    for building, hour, team, count in rows:
        for key in (("hour", building, hour), ("team", building, team)):
            sums[key] = sums.get(key, 0) + count
    assert len(rows) == math.prod(sizes)
    assert connection.notices[0].hint is None
    assert all(count == (teams if key == "hour" else hours) for (key, _, _), count in sums.items())


IN_RHO: dict[str, Any] = {
    "neighbours": "add_remove",
    "budget": {"rho": 1.0, "delta": 1e-6},
    "defaults": {"rho": 0.001},
}


def test_a_group_may_be_another_part_of_each_of_many_known_totals(
    connect: Connect, source: duckdb.DuckDBPyConnection
) -> None:
    """The best translate has other fractions in each; they come near enough in one denominator."""
    source.execute(
        "CREATE TABLE stays AS SELECT i % 40 AS place, i % 60 AS night FROM range(6000) t(i)"
    )
    totals = "SELECT place, count(*) FROM person WHERE place < 40 GROUP BY place"
    attributes = {"place": {"range": [0, 40]}, "night": {"range": [0, 59]}}
    declared = IN_RHO | {"from": "stays", "attributes": attributes}
    connection = connect(invariants=[{"sql": totals}], **declared)
    early = " OR ".join(f"(place = {n} AND night < {n + 2})" for n in range(40))
    sql = f"SELECT night, count(*) FROM person WHERE {early} GROUP BY night"
    assert len(connection.execute(sql).fetchall()) == 41
    assert spent(connection) == pytest.approx(0.001 * (1 - 1 / 41), rel=1e-3)


@pytest.mark.parametrize("largest", one_in(3, [10_000, 100_000, 1_000_000, 100_000_000]))
def test_known_totals_refuse_no_sum_of_large_values(connect: Connect, largest: int) -> None:
    """A translate's coefficients are larger by its denominator: too large ones are left out."""
    sums = (
        f"sum(CASE state WHEN 'AL' THEN {largest} WHEN 'AK' THEN 7 ELSE {largest // 3} END),"
        f" sum(CASE WHEN state = 'WY' AND age < 4 THEN {largest} WHEN age = 2 THEN 3 ELSE 2 END)"
    )
    sql = f"SELECT age, {sums} FROM person WHERE age < 5 GROUP BY age"
    costs = []
    for declared in ({"neighbours": "replace"}, invariants(BY_STATE)):
        connection = connect(**IN_RHO | declared)
        assert "Cost" in connection.explain(sql)
        assert connection.execute(sql).fetchall()
        costs.append(spent(connection))
        connection.close()
    assert 0 < costs[1] <= costs[0]


WITHIN_SUMS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "groups that each state is spread over": (
        (BY_STATE,),
        ("SELECT age, sex, count(*) FROM person GROUP BY 1, 2",),
    ),
    "several statements of one key": (
        (BY_STATE,),
        (
            "SELECT age, count(*) FROM person GROUP BY 1",
            "SELECT sex, age < 30, count(*) FROM person GROUP BY 1, 2",
        ),
    ),
    "a total of two margins": (
        (BY_STATE, "SELECT sex, count(*) FROM person GROUP BY sex"),
        ("SELECT age, count(*) FROM person GROUP BY 1",),
    ),
    "columns that overlap": (
        (BY_STATE,),
        ("SELECT age, count(*) FILTER (WHERE sex = 'F'), count(*) FROM person GROUP BY 1",),
    ),
    "groups beside one that is exact": (
        (BY_STATE, "SELECT count(*) FROM person WHERE sex = 'F' AND age = 30"),
        ("SELECT sex, age, count(*) FROM person GROUP BY 1, 2",),
    ),
    "columns in place of groups": (
        (BY_STATE,),
        (
            "SELECT 0, count(*) FILTER (WHERE age < 30) + 0 AS a, count(*) FILTER (WHERE age >= 30)"
            " AS b, count(*) FILTER (WHERE age IS NULL) AS c FROM person",
        ),
    ),
}


@pytest.mark.parametrize(
    ("case", "answers", "nonnegative"),
    one_in(2, pairs(WITHIN_SUMS, ["auto", "fresh"], [False, True])),
)
def test_rows_add_up_to_a_total_that_follows(
    connect: Connect, case: str, answers: str, nonnegative: bool
) -> None:
    """No exact row is a sum of theirs: only several are, together."""
    published, asked = WITHIN_SUMS[case]
    connection = connect({"epsilon": 0.05, "nonnegative": nonnegative}, **invariants(*published))
    for now in (answers, "history"):
        connection.execute(f"SET dp.source = {now}")
        for sql in asked:
            rows = connection.execute(sql).fetchall()
            counts = rows[0][1:] if case == "columns in place of groups" else [r[-1] for r in rows]
            assert sum(counts) == 3000
            assert not nonnegative or min(counts) >= 0


def test_many_groups_agree_with_their_totals(tmp_path: Path) -> None:
    """3,000 groups in 60 totals, one of which is a group."""
    with duckdb.connect() as source:
        source.execute("CREATE TABLE places AS SELECT i // 3 AS place FROM range(9000) t(i)")
        sql = "SELECT (place + 49) / 50, count(*) FROM person GROUP BY 1"
        exact = [{"sql": sql, "acknowledge": ["place = 0"]}]
        table = {
            "from": "places",
            "neighbours": "replace",
            "budget": {"epsilon": 1e4},
            "attributes": {"place": {"range": [0, 2999]}},
            "invariants": exact,
        }
        keys = {"tables": {"person": table}, "defaults": {"epsilon": 0.1}}
        policy = tallyveil.parse_policy(keys, base=tmp_path)
        with tallyveil.connect(policy, source=source) as connection:
            rows = connection.execute("SELECT place, count(*) FROM person GROUP BY 1").fetchall()
        sums = [0] * 61
        for place, count in rows:
            sums[(place + 49) // 50] += count
        assert sums == [3, *[150] * 59, 147]
