"""A constant that no declared value meets is answered with a warning: the 0 is no fact."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest
from typer.testing import CliRunner

import tallyveil
from tallyveil.cli.app import app
from tallyveil.gate import Gate, Notice
from tallyveil.proxy import Server, ServerThread, Trust

ATTRIBUTES: dict[str, Any] = {
    "sex": {"values": ["Female", "Male"], "nullable": True},
    "city": {"values": ["Paris", "Lyon", "Marseille"], "other": "elsewhere"},
    "age": {"range": [0, 115], "clamp": True, "nullable": True},
    "seen": {"range": [dt.date(2020, 1, 1), dt.date(2020, 12, 31)]},
    "rooms": {"values": [1, 2, 3, 5, 8]},
    "income": {"bins": [0, 1000, 5000], "clamp": True},
    "active": {"values": [True]},
}


def policy(folder: Path) -> Any:
    table = {"from": "people", "budget": {"epsilon": 1e6}, "attributes": ATTRIBUTES}
    public, defaults = {"region": {"from": "region"}}, {"epsilon": 0.1}
    keys = {"tables": {"person": table}, "public": public, "defaults": defaults}
    return tallyveil.parse_policy(keys, base=folder)


@pytest.fixture(scope="module")
def source() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:") as connection:
        connection.execute(
            "CREATE TABLE people AS SELECT ['Female', 'Male'][1 + i % 2] AS sex, 'Paris' AS city, "
            "i AS age, DATE '2020-03-01' AS seen, 1 AS rooms, 700 AS income, true AS active "
            "FROM range(100) t(i)"
        )
        connection.execute(
            "CREATE TABLE region AS SELECT * FROM (VALUES ('PARIS', 'north'), ('LYON', 'south')) "
            "AS v (town, region)"
        )
        yield connection


@pytest.fixture(scope="module")
def connection(
    source: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tallyveil.Connection]:
    declared = policy(tmp_path_factory.mktemp("undeclared"))
    with tallyveil.connect(declared, source=source) as opened:
        yield opened


def warned(connection: tallyveil.Connection, sql: str, parameters: Any = ()) -> list[Notice]:
    notices = connection.execute(sql, parameters).notices
    return [notice for notice in notices if notice.severity == "WARNING"]


def where(predicate: str) -> str:
    return f"SELECT count(*) FROM person WHERE {predicate}"


MISSED = [
    ("sex = 'female'", "'female'", "Did you mean 'Female'?"),
    ("'female' = sex", "'female'", "Did you mean 'Female'?"),
    ("sex = ' Male '", "' Male '", "Did you mean 'Male'?"),
    ("sex = 'Femal'", "'Femal'", "Did you mean 'Female'"),
    ("sex <> 'female'", "'female'", "Did you mean 'Female'?"),
    ("sex IN ('Female', 'male', 'x')", "'male', 'x'", "Did you mean 'Male'?"),
    ("city = 'Pariss' OR city = 'Lyon'", "'Pariss'", "Did you mean 'Paris'?"),
    ("city = 'Berlin'", "'Berlin'", "SELECT DISTINCT city FROM person"),
    ("age > 200", "> 200", "age is declared from 0 to 115."),
    ("age < 0", "< 0", "age is declared from 0 to 115."),
    ("age <= -1", "<= -1", "age is declared from 0 to 115."),
    ("age = 116", "116", "age is declared from 0 to 115."),
    ("age BETWEEN 200 AND 300", ">= 200", "age is declared from 0 to 115."),
    ("NOT age > 200", "<= 200", "age is declared from 0 to 115."),
    ("seen >= DATE '2021-01-01'", ">= 2021-01-01", "from 2020-01-01 to 2020-12-31."),
    ("seen = '2019-12-31'", "2019-12-31", "from 2020-01-01 to 2020-12-31."),
    ("rooms = 4", "4", "Did you mean 3 or 5?"),
    ("rooms = 4.5", "4.5", "Did you mean 3 or 5?"),
    ("income >= 5000", ">= 5000", "income is declared from 0 to below 5000."),
    ("active = false", "False", "SELECT DISTINCT active FROM person"),
    ("CASE sex WHEN 'female' THEN 1 ELSE 0 END = 1", "'female'", "Did you mean 'Female'?"),
    ("CASE WHEN sex = 'female' THEN age = 1 ELSE age = 2 END", "'female'", "'Female'?"),
]
MET = [
    "sex = 'Female'",
    "sex <> 'Female'",
    "sex IS NULL",
    "city = 'elsewhere'",
    "city LIKE 'Par%'",
    "city ILIKE 'PAR%'",
    "city IN ('Paris', 'Lyon')",
    "lower(sex) = 'female'",
    "age > 114",
    "age < 200",
    "age <= 0",
    "age BETWEEN -5 AND 200",
    "seen < '2099-01-01'",
    "seen = DATE '2020-03-01'",
    "rooms = 5.0",
    "income < 1000",
    "1 = 0",
    "false",
]


@pytest.mark.parametrize(("predicate", "constant", "hint"), MISSED)
def test_a_constant_that_is_not_declared_is_named_with_the_nearest(
    connection: tallyveil.Connection, predicate: str, constant: str, hint: str
) -> None:
    (warning,) = warned(connection, where(predicate))
    assert constant in warning.message
    assert hint in (warning.hint or "")
    assert warning.sqlstate == "01000"
    assert warning.position is not None


@pytest.mark.parametrize("predicate", MET)
def test_declared_constants_are_answered_without_a_word(
    connection: tallyveil.Connection, predicate: str
) -> None:
    assert warned(connection, where(predicate)) == []


@pytest.mark.parametrize(
    "sql",
    [
        where("lower(sex) = 'Female'"),
        where("age > 30 AND age < 20"),
        where("sex = NULL"),
        where("city LIKE 'P%' AND upper(city) LIKE 'L%'"),
        where("extract(year FROM seen) = 2021"),
        "SELECT count(*) FROM person JOIN region ON city = town",
        "SELECT region, count(*) FROM person JOIN region ON city = town GROUP BY region",
        "SELECT age, count(*) FROM person WHERE lower(sex) = 'F' GROUP BY age",
        "SELECT count(*) FILTER (WHERE upper(sex) = 'f'), count(*) FROM person",
        where("EXISTS (SELECT 1 FROM region WHERE town = city)"),
    ],
)
def test_conditions_that_no_declared_value_meets_are_seen_as_a_whole(
    connection: tallyveil.Connection, sql: str
) -> None:
    (warning,) = warned(connection, sql)
    assert "no declared value meets the conditions" in warning.message


def test_every_place_of_a_predicate_is_looked_at(connection: tallyveil.Connection) -> None:
    for sql in (
        "SELECT count(*) FILTER (WHERE sex = 'female'), count(*) FROM person",
        "SELECT sum(CASE WHEN sex = 'female' THEN 1 ELSE 0 END) FROM person",
        "SELECT sex = 'female', count(*) FROM person GROUP BY 1",
        "SELECT count(*) FROM (SELECT sex AS s FROM person) AS p WHERE s = 'female'",
        "WITH p AS (SELECT * FROM person WHERE sex = 'female') SELECT count(*) FROM p",
        "SELECT count(*) FROM (SELECT sex AS s FROM person UNION ALL SELECT sex FROM person) AS p "
        "WHERE s = 'female'",
        "SELECT sex, count(*) FROM person GROUP BY sex HAVING sex = 'female'",
        "SELECT DISTINCT age FROM person WHERE sex = 'female'",
    ):
        (warning,) = warned(connection, sql)
        assert "'female' is not a declared value of sex" in warning.message, sql


BY_SEX = "(SELECT sex, count(*) AS n FROM person GROUP BY sex) AS t"


@pytest.mark.parametrize(
    "sql",
    [
        f"WITH c AS (SELECT * FROM {BY_SEX}) "
        "SELECT sum(CASE WHEN sex = 'female' THEN n ELSE 0 END) FROM c",
        f"SELECT coalesce(sum(n), 0) FROM {BY_SEX} WHERE sex = 'female'",
        f"SELECT coalesce((SELECT n FROM {BY_SEX} WHERE sex = 'female'), 0)",
        f"SELECT sum(n) FILTER (WHERE sex IN ('Female', 'female')) FROM {BY_SEX}",
        f"SELECT sum(n) FROM {BY_SEX} JOIN (VALUES ('female')) AS v (s) ON t.sex = v.s",
        f"SELECT sum(n) FROM {BY_SEX} JOIN (VALUES ('female')) AS v (sex) USING (sex)",
        f"WITH v (s) AS (VALUES ('Male'), ('female')) SELECT sum(n) FROM {BY_SEX}, v WHERE s = sex",
        f"SELECT sum(n) FROM {BY_SEX} WHERE sex IN (SELECT 'Male' UNION ALL SELECT 'female')",
        f"SELECT sum(n) FROM {BY_SEX} WHERE sex IN (VALUES ('female'), ('Male'))",
        f"SELECT sum(n) FROM (SELECT s AS g, n FROM {BY_SEX.replace(' t', ' t (s, n)')}) AS u "
        "GROUP BY g HAVING max(g) = 'female'",
        where("sex IN (VALUES ('female'), ('Male'))"),
        "SELECT k, count(*) FROM person JOIN (VALUES ('female', 1), ('Male', 2)) AS v (sex, k) "
        "USING (sex) GROUP BY k",
        "SELECT count(*) FROM person LEFT JOIN (VALUES ('female'), ('Male')) AS v (s) ON s = sex",
        where("sex IN (SELECT s FROM (VALUES ('female'), ('Male')) AS v (s))"),
    ],
)
def test_constants_are_looked_at_above_the_counts_and_in_lists_of_values(
    connection: tallyveil.Connection, sql: str
) -> None:
    (warning,) = warned(connection, sql)
    assert "'female' is not a declared value of sex" in warning.message
    assert "Did you mean 'Female'?" in (warning.hint or "")
    assert warning.position == sql.index("'female'") + 1
    assert warned(connection, sql.replace("'female'", "'Female'")) == []


def test_parameters_and_ranges_are_looked_at_above_the_counts(
    connection: tallyveil.Connection,
) -> None:
    sql = f"SELECT sum(n) FROM {BY_SEX} WHERE sex = ?"
    for given, said in (("Male", 0), ("female", 1), ("Female", 0), ("male", 1)):
        assert len(warned(connection, sql, [given])) == said
    by_age = "(SELECT age, count(*) AS n FROM person WHERE sex = '{}' GROUP BY age) AS t"
    sql = f"SELECT sum(n) FROM {by_age} WHERE age > {{}}"
    for sex, age, said in (("Male", 30, 0), ("Female", 150, 1), ("Male", 40, 0), ("Male", 151, 1)):
        assert len(warned(connection, sql.format(sex, age))) == said


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT s, n FROM (SELECT sex AS s, n FROM {BY_SEX} UNION ALL SELECT 'all', 0) AS u "
        "WHERE s = 'all'",
        f"SELECT n FROM (SELECT coalesce(sex, 'none') AS s, n FROM {BY_SEX}) AS u WHERE s = 'none'",
        f"SELECT n FROM (SELECT upper(sex) AS s, n FROM {BY_SEX}) AS u WHERE s = 'FEMALE'",
        f"SELECT sum(a.n) FROM {BY_SEX.replace(' t', ' a')} JOIN {BY_SEX} ON a.sex = t.sex",
        f"SELECT n FROM (SELECT 'x' AS sex, n FROM {BY_SEX}) AS u WHERE sex = 'x'",
    ],
)
def test_values_that_are_more_than_an_attributes_are_compared_without_a_word(
    connection: tallyveil.Connection, sql: str
) -> None:
    assert warned(connection, sql) == []


TIMED = [
    ("seen < timestamp '2020-01-01 05:00'", None),
    ("seen <= timestamp '2020-12-31 05:00'", None),
    ("seen > timestamp '2020-12-30 05:00'", None),
    ("seen < '2020-01-01 05:00'", "no declared value of seen is < 2020-01-01"),
    ("seen <= '2020-01-01 05:00'", None),
    ("seen > timestamp '2020-12-31 05:00'", "no declared value of seen is > 2020-12-31 05:00:00"),
    ("seen = timestamp '2020-03-05 00:00'", None),
    (
        "seen = timestamp '2020-03-05 12:00' OR age = 5",
        "2020-03-05 12:00:00 is not a declared value",
    ),
    ("seen IN (date '2020-03-05', timestamp '2020-03-05 12:00')", "2020-03-05 12:00:00 is not"),
    ("seen = CAST(timestamp '2020-03-05 12:00' AS date)", None),
    ("seen > CAST('2020-12-31 05:00' AS date)", "no declared value of seen is > 2020-12-31"),
]


@pytest.mark.parametrize(("predicate", "said"), TIMED)
def test_a_day_is_compared_with_a_time_as_it_is_written(
    connection: tallyveil.Connection, predicate: str, said: str | None
) -> None:
    found = [warning.message for warning in warned(connection, where(predicate))]
    assert len(found) == (said is not None)
    assert said is None or found[0].startswith(said)


def test_a_parameter_keeps_its_time(connection: tallyveil.Connection) -> None:
    assert warned(connection, where("seen < ?"), [dt.datetime(2020, 1, 1, 5)]) == []
    assert len(warned(connection, where("seen < ?"), [dt.datetime(2020, 1, 1)])) == 1


NEGATED = [
    ("sex NOT IN ('male')", "every declared value differs from it"),
    ("NOT (sex = 'male')", "every declared value differs from it"),
    ("NOT (sex = 'male' OR age = 1)", "every declared value differs from it"),
    ("NOT NOT sex = 'male'", "no record is counted by it"),
    ("NOT (sex <> 'male')", "no record is counted by it"),
    ("sex <> ALL (ARRAY['male', 'x'])", "every declared value differs from them"),
    ("sex <> 'male'", "every declared value differs from it"),
    ("age <= ALL (ARRAY[200, 300])", "every declared value of age is <= 200"),
    ("age NOT BETWEEN 200 AND 300", "every declared value of age is < 200"),
]


@pytest.mark.parametrize(("predicate", "effect"), NEGATED)
def test_the_effect_said_is_that_of_the_whole_condition(
    connection: tallyveil.Connection, predicate: str, effect: str
) -> None:
    found = warned(connection, where(predicate))
    assert found[0].message.endswith(effect)


def test_aggregates_that_cancel_out_are_no_condition(connection: tallyveil.Connection) -> None:
    cancelled = "SELECT 5 * count(*) - 5 * count(*) AS zero, count(*) AS n FROM person"
    assert warned(connection, f"{cancelled} WHERE age < 50") == []
    assert warned(connection, f"{cancelled} WHERE sex = 'Male' AND age < 50") == []
    assert len(warned(connection, f"{cancelled} WHERE upper(sex) = 'x'")) == 1
    sql = "SELECT sum(age) - sum(age) AS zero FROM person WHERE age < 50"
    assert warned(connection, sql) == []


def test_parameters_are_constants_too(connection: tallyveil.Connection) -> None:
    (warning,) = warned(connection, where("sex = ?"), ["female"])
    assert "'female'" in warning.message
    assert warned(connection, where("sex = ?"), ["Female"]) == []
    (warning,) = warned(connection, where("age > ?"), [200])
    assert "> 200" in warning.message
    (warning,) = warned(connection, where("sex = ANY(?)"), [["Female", "male"]])
    assert "'male'" in warning.message


def test_what_became_of_other_values_is_said(connection: tallyveil.Connection) -> None:
    (left_out,) = warned(connection, where("sex = 'x'"))
    assert left_out.detail == "Records with other values of sex are left out of the table."
    (other,) = warned(connection, where("city = 'Berlin'"))
    assert other.detail == "Records with other values of city are counted as 'elsewhere'."
    (end,) = warned(connection, where("age > 200"))
    assert end.detail == "Records beyond an end of age are counted at that end."


def test_a_repeated_statement_warns_again_and_explain_does(
    connection: tallyveil.Connection,
) -> None:
    sql = where("sex = 'female'")
    first, again = warned(connection, sql), warned(connection, sql)
    assert first == again
    assert len(first) == 1
    connection.explain(sql)
    assert [notice.severity for notice in connection.notices] == ["WARNING"]
    connection.sql(sql)
    assert connection.notices[0] == first[0]


def test_notices_may_be_off_and_warnings_stay(connection: tallyveil.Connection) -> None:
    connection.execute("SET dp.notices = off")
    try:
        assert len(connection.execute(where("sex = 'female'")).notices) == 1
        assert connection.execute(where("sex = 'Female'")).notices == ()
    finally:
        connection.execute("RESET dp.notices")


def test_many_are_named_together_and_no_more_than_a_few(
    connection: tallyveil.Connection,
) -> None:
    listed = ", ".join(f"'x{n}'" for n in range(1000))
    (warning,) = warned(connection, where(f"city IN ({listed})"))
    assert "'x0', 'x1', 'x2' and 997 more are not declared values" in warning.message


def test_the_wire_has_severity_code_detail_hint_and_position(
    source: duckdb.DuckDBPyConnection, tmp_path: Path
) -> None:
    gate = Gate(policy(tmp_path), source)
    thread = ServerThread(Server(gate.session, port=0, auth=Trust()))
    thread.start()
    found: list[tuple[str | None, ...]] = []

    def note(notice: psycopg.errors.Diagnostic) -> None:
        fields = (notice.sqlstate, notice.message_hint, notice.message_detail)
        if notice.severity == "WARNING":
            found.append((*fields, notice.statement_position))

    sql = where("sex = 'female'")
    try:
        with psycopg.connect(
            f"postgresql://alice@127.0.0.1:{thread.port}/x", autocommit=True
        ) as client:
            client.add_notice_handler(note)
            client.execute(f"SELECT 1; {sql}")
            client.execute(where("sex = %s"), ["female"])
    finally:
        thread.close()
        gate.close()
    hint = "Did you mean 'Female'? SELECT DISTINCT sex FROM person lists the declared values."
    detail = "Records with other values of sex are left out of the table."
    place = len("SELECT 1; ") + sql.index("'female'") + 1
    bound = sql.index("sex") + 1
    assert found == [("01000", hint, detail, str(at)) for at in (place, bound)]


def test_the_shell_prints_it(tmp_path: Path) -> None:
    (tmp_path / "person.csv").write_text("sex\nFemale\nMale\n")
    (tmp_path / "policy.toml").write_text(
        '[source]\nurl = "person.csv"\n[tables.person]\nfrom = "person"\n'
        "budget = { epsilon = 1.0 }\n[tables.person.attributes]\n"
        'sex = { values = ["Female", "Male"] }\n'
    )
    run: Callable[..., Any] = CliRunner().invoke
    arguments = ["sql", str(tmp_path / "policy.toml"), where("sex = 'female'")]
    result = run(app, arguments)
    assert result.exit_code == 0
    assert "WARNING: 'female' is not a declared value of sex" in result.stderr
    assert "HINT: Did you mean 'Female'?" in result.stderr
    noted = json.loads(run(app, [*arguments, "--json"]).stdout)["notices"]
    assert any("'female'" in notice["message"] for notice in noted)
