"""The answers of docs/first-policies.md are right: without noise they are those of the raw rows."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.cli.shell import shell
from tests.docs.examples import examples

PAGE = Path(__file__).parents[2] / "docs" / "first-policies.md"
RAW = {
    "orders": "'orders.parquet'",
    "visit": "(SELECT * REPLACE (CAST(ward AS VARCHAR) AS ward) FROM house.visit)",
    "trips": "'trips.csv'",
    "weblog": "'weblog.parquet'",
    "payroll": "'payroll.parquet'",
}


def test_first_answers_are_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    asked = []
    for example in examples(PAGE):
        if example.language == "python":
            exec(compile(example.code, PAGE.name, "exec"), {})
        elif example.language == "toml":
            name = example.code.split()[1]
            # So much that counts have no noise, and sums of cents next to none.
            Path(name).write_text(re.sub("budget = .*", "budget = { epsilon = 1e6 }", example.code))
        elif example.code.startswith("tallyveil sql"):
            asked.append(shlex.split(example.code)[2:4])
    assert len(asked) == len(RAW)
    with duckdb.connect() as raw:
        raw.execute("ATTACH 'visits.duckdb' AS house (READ_ONLY)")
        for table, relation in RAW.items():
            raw.execute(f"CREATE VIEW {table} AS FROM {relation}")
        for policy, query in asked:
            found = json.loads(shell("sql", policy, query, "--json", "--epsilon", "200000").stdout)
            rows = [row for row in found["rows"] if row[1]]
            truth = [list(row) for row in raw.execute(query).fetchall()]
            assert rows
            assert labels(rows) == labels(truth)
            assert numbers(rows) == pytest.approx(numbers(truth), abs=0.5)


def labels(rows: list[list[Any]]) -> list[Any]:
    return [row[0] for row in rows]


def numbers(rows: list[list[Any]]) -> list[float]:
    return [float(value) for row in rows for value in row[1:]]
