"""What PostgreSQL does not read is refused in its words, and what sqlglot reads otherwise is not
answered.
"""

from __future__ import annotations

from typing import Any

import duckdb
import psycopg
import pytest

from tallyveil.errors import SQLSyntaxError, StatementError
from tallyveil.rewriter.sql.statement_text import parse_query

UNFINISHED = [
    "SELECT count(*) FROM person GROUP",
    "SELECT count(*) FROM person GROUP BY",
    "SELECT count(*) FROM person WHERE age > 5 ORDER",
    "SELECT count(*) FROM (SELECT * FROM person ORDER) t",
    "SELECT count(*) FROM person OFFSET",
    "SELECT count(*) FROM person FETCH",
    "SELECT count(*), FROM person",
    "SELECT count(*) FROM person,",
    "SELECT count(*) FROM person, WHERE age > 5",
    "SELECT count(*) FROM person WHERE age IN ()",
    "SELECT count(*) FROM person WHERE age IN (1, 2,)",
    "SELECT coalesce(1,)",
    "SELECT ARRAY[1,]",
    "SELECT 1 AS",
    "SELECT count(*) FILTER FROM person",
    "SELECT sex, count(*) FROM person GROUP BY sex, ORDER BY 1",
    "SELECT count(*) FROM person LIMIT",
    "SELECT count(*) FROM (SELECT * FROM person LIMIT) t",
    "SELECT count(*) FROM person JOIN person b ON",
    "SELECT count(*) FROM person JOIN person b USING",
    "SELECT sum(count(*)) OVER FROM person",
    "SELECT sum(count(*)) OVER (PARTITION BY) FROM person",
    "SELECT count(DISTINCT) FROM person",
    "SELECT count(*) FROM person FETCH FIRST",
    "SELECT count(*) FROM person OFFSET 0 ROWS FETCH NEXT",
    "SELECT count(*) FROM person GROUP BY ROLLUP ()",
    "SELECT count(*) FROM person GROUP BY CUBE ()",
    "SELECT DISTINCT ON",
    "SELECT count(*) FROM person GROUP ''",
    "SELECT count(*) FROM person GROUP ' a'",
    "SELECT count(*) FROM person GROUP $$ a$$",
    'SELECT count(*) FROM person ORDER " "',
    'SELECT count(*) FROM person ORDER "a  b"',
    "SELECT count(*) FROM person LIMIT 1, 2",
    "SELECT count(*) FROM person LIMIT (1), (SELECT 2)",
    "SELECT (SELECT 1 LIMIT 0,1) AS a",
    "SELECT count(*) FROM person LIMIT ALL, 1",
    "SELECT count(*) FROM person LIMIT 0, 1 OFFSET 3",
]

# sqlglot reads each of these.
OTHERWISE = [
    "SELECT sex, count(*) FROM person GROUP BY ALL",
    "SELECT count(*) FROM person GROUP BY 1 HAVING count(*) > 1 WHERE age > 3",
    "SELECT count(*) FROM person ORDER BY 1 GROUP BY sex",
    "SELECT count(*) FROM person ORDER BY 1 HAVING count(*) > 1",
    "SELECT count(*) FROM person HAVING true GROUP BY sex",
    "SELECT count(*) WHERE age > 3 FROM person",
    "SELECT count(*) FILTER (age > 3) FROM person",
    "SELECT count(*) FROM person WHERE sex RLIKE 'F'",
    "SELECT count(*) FROM person WHERE sex REGEXP 'F'",
    "FROM person SELECT count(*)",
    "FROM person",
    "SELECT count(*) FROM person QUALIFY true",
    "SELECT count(*) FROM person WHERE age DIV 2 = 1",
    "SELECT count(*) FROM person WHERE age = 3 = true",
    "SELECT count(*) FROM person WHERE age < 3 < true",
    "SELECT TOP 5 count(*) FROM person",
    "SELECT count(*) FROM person WHERE `age` = 3",
    "SELECT count(*) FROM person LIMIT 1 PERCENT",
    "SELECT * EXCLUDE (age) FROM (SELECT count(*) FROM person) t",
    "SELECT count(*) FROM person JOIN band WHERE age = low",
    "SELECT count(*) FROM person WHERE sex ILIKE ANY ('F', 'M')",
    "SELECT x -> x + 1 FROM person PREWHERE age > 3",
    "SELECT IF(age > 3 THEN 1) FROM person",
    "SELECT count(*) FROM person WHERE age BETWEEN 1, 3",
    "SELECT INTERVAL 1 DAY",
]

# PostgreSQL answers these as well, and otherwise than sqlglot reads them.
MISREAD = [
    "SELECT count(*) FROM person WHERE like(sex, 'F%')",
    "SELECT INTERVAL '1.5' HOUR",
]

WHOLE = [
    'SELECT 1 AS group, 2 AS offset, 3 AS "order", 4 AS filter',
    'SELECT t.order FROM (SELECT 1 AS "order") t',
    "SELECT count(*) FILTER (WHERE true), 'GROUP', 'a, ', 1 AS fetch",
    "SELECT 1 WHERE 1 IN (1) ORDER BY 1 OFFSET 0",
    "SELECT 1 AS is",
    "SELECT sum(1) OVER w, 1 AS limit WINDOW w AS (PARTITION BY 1)",
    "SELECT sum(1) OVER (), 1 AS over",
    "WITH a AS (SELECT 1 LIMIT 1), b AS (SELECT 2 LIMIT (3)) SELECT * FROM a, b LIMIT 1 OFFSET 0",
    "SELECT (SELECT 1 LIMIT greatest(1, 2)) AS a, ARRAY[1, 2] AS b",
    "SELECT * FROM (SELECT 1 LIMIT length('(')) a, (SELECT 2) b",
    'SELECT "limit", 2 FROM (SELECT 1 AS "limit") t',
]


@pytest.mark.parametrize("sql", UNFINISHED + OTHERWISE)
def test_what_postgresql_does_not_read_is_refused_in_its_words(
    postgres: psycopg.Connection[Any], sql: str
) -> None:
    with pytest.raises(psycopg.errors.SyntaxError) as theirs:
        postgres.execute(sql.encode())
    with pytest.raises(SQLSyntaxError) as ours:
        parse_query(sql, "postgres")
    assert str(ours.value.position) == theirs.value.diag.statement_position
    assert ours.value.message == theirs.value.diag.message_primary


@pytest.mark.parametrize("sql", MISREAD)
def test_what_is_read_otherwise_than_postgresql_reads_it_is_refused(
    postgres: psycopg.Connection[Any], sql: str
) -> None:
    postgres.execute("CREATE TEMPORARY TABLE IF NOT EXISTS person (age int, sex text)")
    postgres.execute(sql.encode())
    with pytest.raises(StatementError):
        parse_query(sql, "postgres")


@pytest.mark.parametrize("sql", WHOLE)
def test_names_that_are_words_of_the_grammar_are_names(
    postgres: psycopg.Connection[Any], sql: str
) -> None:
    postgres.execute(sql.encode())
    parse_query(sql, "postgres")


@pytest.mark.parametrize("sql", UNFINISHED)
def test_what_is_not_finished_is_refused_in_duckdbs_dialect_where_duckdb_refuses_it(
    database: duckdb.DuckDBPyConnection, sql: str
) -> None:
    database.execute("CREATE TABLE person (age INTEGER, sex VARCHAR)")
    try:
        database.execute(sql)
    except duckdb.ParserException:
        with pytest.raises(SQLSyntaxError):
            parse_query(sql, "duckdb")
    except duckdb.Error:  # it is understood
        pass
    else:
        parse_query(sql, "duckdb")
