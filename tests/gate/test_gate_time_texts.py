"""Texts as dates and timestamps: PostgreSQL's reading, or a refusal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest

import tallyveil
from tallyveil.errors import (
    DatetimeFieldOverflow,
    FeatureNotSupported,
    InvalidDatetimeFormat,
    InvalidParameterValue,
    SourceError,
    StatementError,
)
from tallyveil.gate import Gate
from tallyveil.gate.session import GateSession

TEXTS = [
    "2014-02-03", "2014-2-3", "2014/02/03", " 2014-02-03 ", "0014-02-03", "14-02-03", "5-1-1",
    "2014-02-03 (BC)", "0044-03-15 BC", "2014-02-03 10:00", "2014-02-03T10:00:00Z",
    "2014-02-03 1:2:3", "2014-02-03 10:00 PM", "2014-02-03 10:00 am", "2014-02-03 10:00 banana",
    "2014-02-03 10:00:00 AD", "2014-02-03 10:00+02", "2014-02-03 10:00-0230",
    "2014-02-03 10:00 +02", "2014-02-03 10:00+15:59", "2014-02-03 10:00-15:59:59",
    "2014-02-03 10:00+05:30:15", "2014-07-03 10:00 Europe/Paris", "2014-07-03 10:00 UTC",
    "2014-07-03 10:00 PST", "2014-07-03 10:00 IST", "2014-07-03 10:00 BST", "2014-02-30",
    "2014-02-03 23:59:59.123456", "2014-02-03 23:59:59.9999999", "2014-02-03 24:00:00",
    "2014-02-03 24:00:00.5",
    "0000-02-20", "0000-02-20 10:00", "0001-01-01", "2000-02-29", "1900-02-29", "2014-13-01",
    "2014-00-01", "2014-01-00", "2014-01-01 25:00", "2014-01-01 10:60", "2014-01-01 10:00:60",
    "epoch", "Feb 3 2014", "20140203", "2014-02-03 10:00 x y", "",
]  # fmt: skip


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GateSession]:
    table = {"budget": {"epsilon": 1.0}, "attributes": {"sex": {"values": ["F"]}}}
    folder = tmp_path_factory.mktemp("texts")
    policy = tallyveil.parse_policy({"tables": {"person": table}}, base=folder)
    with duckdb.connect() as source:
        source.execute("CREATE TABLE person AS SELECT 'F' AS sex")
        gate = Gate(policy, source)
        yield gate.session("alice", "db", "postgres")
        gate.close()


def answer(session: GateSession, sql: str) -> list[Any]:
    (statement,) = session.parse(sql)
    return list(session.execute(statement).rows)


@pytest.mark.parametrize("kind", ["date", "timestamp", "timestamptz"])
def test_a_time_text_is_postgresqls_or_refused(
    ours: GateSession, postgres: psycopg.Connection[Any], kind: str
) -> None:
    for text in TEXTS:
        sql = f"SELECT extract(epoch FROM {kind} '{text}')::bigint AS seconds"
        try:
            found = answer(ours, sql)
        except (InvalidDatetimeFormat, DatetimeFieldOverflow, InvalidParameterValue):
            continue
        assert found == postgres.execute(sql.encode()).fetchall(), sql


@pytest.mark.parametrize(
    "predicate",
    [
        "current_date < '14-02-03'",
        "current_date IN ('2014-02-03', '14-02-03')",
        "current_date BETWEEN '2014-02-03' AND '14-02-03'",
        "coalesce(current_date, '14-02-03') IS NULL",
        "now() < '14-02-03'",
    ],
)
def test_a_text_beside_a_time_is_read_in_the_same_way(ours: GateSession, predicate: str) -> None:
    sql = f"SELECT {predicate} AS x"
    with pytest.raises(InvalidDatetimeFormat, match="14-02-03") as caught:
        answer(ours, sql)
    assert caught.value.position == sql.index("'14-02-03'") + 1


@pytest.mark.parametrize(
    ("predicate", "at"),
    [
        ("current_date < '2020-02-30'", "'2020"),
        ("current_date IN ('2020-02-29', '0000-02-29')", "'0000"),
        ("now() = timestamp '2020-02-29 25:00'", "'2020"),
        ("'2020-13-01'::date = current_date", "'2020"),
        ("now() < time '10:00'", "'10:00'"),
        ("now() < timestamptz '2020-01-01 00:00+16'", "'2020"),
        ("now() < timestamptz '2020-01-01 00:00-15:60'", "'2020"),
        ("now() < timestamptz '2020-01-01 00:00+15:59:60'", "'2020"),
        ("current_date < '2020-01-01 00:00+99'", "'2020"),
        ("now() < timestamp '2020-01-01 00:00-16:00'", "'2020"),
        ("'CA'::varchar(0) = 'CA'", "'CA'::"),
        ("'CA'::varchar(10485761) = 'CA'", "'CA'::"),
        ("1.5::numeric(1001) > 1", "1.5"),
        ("1.5::numeric(3, 4) > 1", "1.5"),
    ],
)
def test_what_postgresql_refuses_is_refused_at_its_place(
    ours: GateSession, postgres: psycopg.Connection[Any], predicate: str, at: str
) -> None:
    sql = f"SELECT {predicate} AS x"
    if "numeric(3" not in predicate:  # its scale may be above its precision
        with pytest.raises(psycopg.Error):
            postgres.execute(sql.encode())
    with pytest.raises(StatementError) as caught:
        answer(ours, sql)
    assert caught.value.position == sql.index(at) + 1


@pytest.mark.parametrize(
    ("predicate", "instead"),
    [
        ("current_date = 'today'", "current_date"),
        ("current_date < 'tomorrow'", "current_date + 1"),
        ("current_date > date ' Yesterday'", "current_date - 1"),
        ("now() < timestamptz 'now'", "now()"),
    ],
)
def test_a_text_that_means_another_time_each_day_says_what_to_write(
    ours: GateSession, postgres: psycopg.Connection[Any], predicate: str, instead: str
) -> None:
    """PostgreSQL takes both."""
    postgres.execute(f"SELECT {predicate} AS x".encode())
    with pytest.raises(FeatureNotSupported, match="is not read as a") as caught:
        answer(ours, f"SELECT {predicate} AS x")
    assert caught.value.hint == f"Write {instead}."
    assert caught.value.position is not None
    assert answer(ours, f"SELECT {instead} IS NULL AS x") == [(False,)]


def test_a_time_zone_beyond_postgresqls_has_its_own_sqlstate(
    ours: GateSession, postgres: psycopg.Connection[Any]
) -> None:
    sql = "SELECT timestamptz '2020-01-01 00:00+16' AS x"
    with pytest.raises(psycopg.Error) as theirs:
        postgres.execute(sql.encode())
    with pytest.raises(StatementError, match="time zone displacement") as caught:
        answer(ours, sql)
    assert caught.value.sqlstate == theirs.value.sqlstate == "22009"


@pytest.mark.parametrize("text", ["infinity", "-infinity", "Infinity", "inf"])
@pytest.mark.parametrize("sql", ["{kind} '{text}' > now()", "now() - '{text}'::{kind} IS NULL"])
@pytest.mark.parametrize("kind", ["date", "timestamp", "timestamptz"])
def test_infinite_times_are_refused(ours: GateSession, sql: str, kind: str, text: str) -> None:
    with pytest.raises(StatementError, match=f"an infinite {kind[:4]}.* is not supported"):
        answer(ours, f"SELECT {sql.format(kind=kind, text=text)} AS x")


@pytest.mark.parametrize("infinite", ["DATE '-infinity'", "TIMESTAMP 'infinity'"])
def test_a_public_table_with_an_infinite_time_is_refused(tmp_path: Path, infinite: str) -> None:
    days = f"SELECT DATE '2020-01-01' AS day, {infinite} AS until UNION ALL SELECT NULL, NULL"
    table = {"budget": {"epsilon": 1.0}, "attributes": {"sex": {"values": ["F"]}}}
    keys = {"tables": {"person": table}, "public": {"validity": {"from": days}}}
    with duckdb.connect() as source:
        source.execute("CREATE TABLE person AS SELECT 'F' AS sex")
        with pytest.raises(SourceError, match="validity: column until has an infinite date"):
            Gate(tallyveil.parse_policy(keys, base=tmp_path), source)


@pytest.mark.parametrize(
    "text", ["t", "tr", "tru", "true", "y", "ye", "yes", "on", "1", " TRUE ", "f", "fa", "fal",
             "fals", "false", "n", "no", "of", "off", "0", "\tOff", "o", "truee", "", "2", "nein"],
)  # fmt: skip
@pytest.mark.parametrize(
    "expression",
    ["'{0}'::bool", "(1 = 1) = '{0}'", "(1 = 1) IN ('{0}')", "(lower('{0}') || '')::bool"],
)
def test_a_text_is_as_true_as_in_postgresql(
    ours: GateSession, postgres: psycopg.Connection[Any], expression: str, text: str
) -> None:
    sql = f"SELECT {expression.format(text)} AS x"
    try:
        theirs = postgres.execute(sql.encode()).fetchall()
    except psycopg.Error:
        with pytest.raises(StatementError) as caught:
            answer(ours, sql)
        assert "||" in expression or caught.value.position == sql.index(f"'{text}'") + 1
    else:
        assert answer(ours, sql) == theirs


@pytest.mark.parametrize(
    "expression",
    [
        "(timestamptz '2020-06-01 23:00-05')::date",
        "(timestamp with time zone '2020-06-01 23:00-05')::date",
        "(timestamptz '2020-06-01 23:00-05')::timestamp::date",
        "(timestamp '2020-06-01 10:59')::date",
        "(timestamp without time zone '2020-06-01 10:59')::date + 1",
        "(date '2020-06-01 10:59')::timestamp",
        "((date '2020-06-01')::text || (timestamp '2020-06-01 10:59')::date::text)",
        "(double precision '2.5')::int",
        "(numeric '2.5')::int",
        "(float8 '1.5')::int + (int '7')::int",
        "(varchar(5) 'abcdefg')::varchar(2)",
        "(bool 'ye')::int",
    ],
)
def test_what_stands_before_a_text_is_its_type(
    ours: GateSession, postgres: psycopg.Connection[Any], expression: str
) -> None:
    """In brackets. Without them the parser would cast the text to what stands behind it first."""
    sql = f"SELECT {expression} AS x"
    theirs = postgres.execute(sql.encode()).fetchall()
    (statement,) = ours.parse(sql)
    found = [tuple(row) for row in ours.execute(statement).rows]
    assert found == theirs
    assert type(found[0][0]) is type(theirs[0][0])
    if expression.startswith("("):
        with pytest.raises(StatementError, match="not supported"):
            ours.parse(sql.replace("(", "").replace(")", ""))


@pytest.mark.parametrize(
    ("expression", "sqlstate"),
    [
        ("'99999999999'::int", "22003"),
        ("'-70000'::smallint", "22003"),
        ("' 9223372036854775808'::bigint", "22003"),
        ("99999.999::numeric(7, 2)", "22003"),
        ("'a' ~ '('", "2201B"),
        ("'ab' LIKE 'a\\'", "22025"),
        ("'ab' ILIKE 'A#' ESCAPE '#'", "22025"),
        ("ntile(0) OVER ()", "22014"),
        ("'{1,x}'::int[]", "22P02"),
        ("'{1,2'::int[]", "22P02"),
    ],
)
def test_an_error_is_postgresqls(
    ours: GateSession, postgres: psycopg.Connection[Any], expression: str, sqlstate: str
) -> None:
    sql = f"SELECT {expression} AS x"
    with pytest.raises(psycopg.Error) as theirs:
        postgres.execute(sql.encode())
    with pytest.raises(StatementError) as caught:
        answer(ours, sql)
    assert caught.value.sqlstate == theirs.value.sqlstate == sqlstate


def test_there_is_no_year_0(ours: GateSession) -> None:
    """PostgreSQL refuses it, and DuckDB makes it the one before the first."""
    sql = "SELECT count(*) FROM person WHERE make_date(CASE sex WHEN 'F' THEN 0 END, 1, 1) < now()"
    with pytest.raises(InvalidParameterValue, match="years begin with 1"):
        answer(ours, sql)
