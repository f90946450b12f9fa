"""PIVOT against DuckDB on the raw rows, with the noise left out: the names of columns, and rows."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import tallyveil
from tests.scenarios.noise import injected

RECORDS = """SELECT ['AL', 'AK'][1 + i % 2] AS state, i % 3 AS age, i % 4 = 1 AS married,
    CASE WHEN i % 7 < 3 THEN 'F' WHEN i % 7 < 6 THEN 'M' END AS sex FROM range(100) AS t(i)"""
POLICY = {
    "tables": {
        "person": {
            "budget": {"epsilon": 1000},
            "attributes": {
                "state": {"values": ["AL", "AK"]},
                "age": {"range": [0, 2]},
                "married": {"values": [True, False]},
                "sex": {"values": ["F", "M"], "nullable": True},
            },
        }
    },
    "defaults": {"epsilon": 1},
}


@pytest.mark.parametrize(
    "sql",
    [
        "PIVOT person ON sex USING count(*) GROUP BY state",
        "PIVOT person ON sex, married USING count(*) AS n, avg(age) GROUP BY state",
        "PIVOT person ON age USING count(*), sum(age) GROUP BY state, sex",
        "PIVOT person ON sex",
        "PIVOT person ON (sex || 'x''y') IN ('Fx''y', 'Mx''y') USING count(*) GROUP BY state",
        "PIVOT person ON sex IN ('M', NULL) USING sum(age) AS \"a b\" GROUP BY state",
        "PIVOT (SELECT state, age + 1 AS next FROM person) AS t ON next USING count(*)",
        "WITH t AS (SELECT state, sex, count(*) AS n FROM person GROUP BY state, sex) "
        "PIVOT t ON sex USING max(n) GROUP BY state ORDER BY state",
    ],
)
def test_it_is_duckdbs(tmp_path: Path, sql: str) -> None:
    raw = duckdb.connect()
    raw.execute(f"CREATE TABLE person AS {RECORDS}")
    policy = tallyveil.parse_policy(POLICY, base=tmp_path)
    with injected([]), tallyveil.connect(policy, source=raw) as connection:
        found = connection.execute(sql)
        rows = {tuple(row) for row in found.fetchall()}
        names = [column[0] for column in found.description or ()]
    theirs = raw.execute(sql)
    assert names == [column[0].lower() for column in theirs.description]  # DuckDB ignores case
    # A declared group that no record is in is there, too: its counts are 0.
    assert set(theirs.fetchall()) <= rows
