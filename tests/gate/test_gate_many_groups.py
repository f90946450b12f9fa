"""Statements of very many groups: one charge for all, and a limit that is checked before it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import tallyveil
from tallyveil.gate import Gate
from tests.gate.asking import spent
from tests.gate.many_sessions import PATIENCE


@pytest.fixture
def many(tmp_path: Path) -> Iterator[tallyveil.Connection]:
    attributes = {"a": {"range": [0, 519]}, "b": {"range": [0, 399]}, "c": {"range": [0, 1]}}
    table = {"from": "r", "budget": {"epsilon": 100.0}, "attributes": attributes}
    policy = tallyveil.parse_policy(
        {"tables": {"t": table}, "defaults": {"epsilon": 50}}, base=tmp_path
    )
    with duckdb.connect() as source:
        source.execute(
            "CREATE TABLE r AS SELECT i % 520 AS a, i % 399 AS b, i % 2 AS c"
            " FROM range(300000) x(i)"
        )
        with tallyveil.Connection(Gate(policy, source, time_limit=PATIENCE)) as connection:
            yield connection


def test_208_000_groups_cost_what_one_does(many: tallyveil.Connection) -> None:
    sql = "SELECT a, b, count(*) FROM t GROUP BY a, b"
    rows = many.execute(sql).fetchall()
    truth = {(a, b): 0 for a in range(520) for b in range(400)}
    for i in range(300_000):
        truth[i % 520, i % 399] += 1
    assert len(rows) == len(truth)
    # b = 1/50: P(noise is not 0) is 4e-22 for each group.
    assert {(a, b): n for a, b, n in rows} == truth
    assert spent(many) == 50
    assert sorted(many.execute(sql).fetchall()) == sorted(rows)
    assert spent(many) == 50


@pytest.mark.parametrize(
    ("setting", "group", "sqlstate", "limit"),
    [
        ("dp.source = auto", "a, b, c", "22023", "416000 groups; the limit is 300000"),
        ("dp.coverage = always", "a, b", "54001", "208000 groups; .* the limit is 100000"),
    ],
)
def test_more_are_refused_before_they_are_charged(
    many: tallyveil.Connection, setting: str, group: str, sqlstate: str, limit: str
) -> None:
    many.execute(f"SET {setting}")
    with pytest.raises(tallyveil.Error, match=limit) as caught:
        many.execute(f"SELECT {group}, count(*) FROM t GROUP BY {group}")
    assert caught.value.sqlstate == sqlstate
    assert spent(many) == 0
