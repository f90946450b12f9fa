"""The statements of a peer's test corpus, each with its verdict: answered, or refused and why.

``smartnoise.tsv`` names each by file, number and the beginning of its SHA-256, and has what
tallyveil says in DuckDB's dialect. What is answered is compared with DuckDB on the same rows.
PUMS.PUMS and Telemetry.Crashes are tables here, without their schemas; the other names that the
corpus mentions are not. Incomes are in thousands.
``--write-fixtures`` writes the table anew, to be read before a commit.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
import sqlglot
from sqlglot import exp

import tallyveil
from tallyveil.errors import TallyveilError
from tests.corpora.compare import same_rows
from tests.corpora.house import House, said, silent

_HERE = Path(__file__)
_TABLE = _HERE.with_name("smartnoise.tsv")
_HEAD = "file\tnumber\tsha256\tverdict\tsqlstate\tmessage"
_SHARED = Path(os.environ.get("TALLYVEIL_SHARED", _HERE.parents[3] / "shared"))
_CORPUS, _DATA = _SHARED / "sql" / "smartnoise", _SHARED / "data" / "PUMS_null.csv"

pytestmark = pytest.mark.skipif(
    not (_CORPUS.is_dir() and _DATA.is_file()),
    reason="the corpus and PUMS are not part of the project; TALLYVEIL_SHARED says where they are",
)

_CRASHES = """
    CREATE TABLE crashes AS SELECT
        i AS DeviceID, ['LATAM', 'EMEA', 'NA'][1 + i % 3] AS Region,
        ['A', 'B', NULL][1 + i % 7 % 3] AS Building, i % 2 = 0 AS Refurbished,
        (i * 7) % 40 + 40 AS Temperature, (i * i) % 11 AS Crashes
    FROM range(500) t(i)
"""
_POLICY: dict[str, Any] = {
    "tables": {
        "pums": {
            "budget": {"epsilon": 10**6},
            "attributes": {
                "age": {"range": [0, 115], "nullable": True},
                "sex": {"values": [0, 1], "nullable": True},
                "educ": {"range": [1, 16], "nullable": True},
                "race": {"range": [1, 6], "nullable": True},
                "income": {"range": [0, 420], "nullable": True},
                "married": {"values": [0, 1], "nullable": True},
            },
        },
        "crashes": {
            "budget": {"epsilon": 10**6},
            "attributes": {
                "deviceid": {"range": [0, 499]},
                "region": {"values": ["LATAM", "EMEA", "NA"]},
                "building": {"values": ["A", "B"], "nullable": True},
                "refurbished": {"values": [True, False]},
                "temperature": {"range": [40, 79]},
                "crashes": {"range": [0, 10]},
            },
        },
    }
}


def statements() -> Iterator[tuple[str, int, str]]:
    """(file, number from 1, text) of every statement."""
    for file in sorted(_CORPUS.glob("*.sql")):
        lines = [line for line in file.read_text().splitlines() if not line.startswith("--")]
        for number, text in enumerate(re.split(r";\s*(?:\n|$)", "\n".join(lines)), 1):
            if text.strip():
                yield file.name, number, text.strip()


@pytest.fixture(scope="module")
def raw() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE pums AS SELECT * REPLACE (income // 1000 AS income) FROM read_csv(?)",
            [str(_DATA)],
        )
        connection.execute(_CRASHES)
        yield connection


@pytest.fixture(scope="module")
def house(raw: duckdb.DuckDBPyConnection, tmp_path_factory: pytest.TempPathFactory) -> Any:
    policy = tallyveil.parse_policy(_POLICY, base=tmp_path_factory.mktemp("smartnoise"))
    with silent():
        made = House(policy, raw)
        yield made
        made.close()


def test_every_statement_has_its_verdict(
    house: House, raw: duckdb.DuckDBPyConnection, request: pytest.FixtureRequest
) -> None:
    found = [_HEAD]
    for file, number, text in statements():
        sql = re.sub(r"\b(?:PUMS|Telemetry)\.(PUMS|Crashes)\b", r"\1", text)
        verdict, state, message = "answered", "", ""
        try:
            _, rows = house.answer(sql, "duckdb")
        except TallyveilError as error:
            verdict, (state, message, *_) = "refused", said(error)
        else:
            assert _agree(rows, raw.execute(sql).fetchall(), sql), sql
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        # What the parser quotes may be of several lines.
        found.append(
            "\t".join([file, str(number), digest, verdict, state, *message.split("\n")[:1]])
        )
    if request.config.getoption("--write-fixtures"):
        _TABLE.write_text("\n".join(found) + "\n")
    else:
        assert found == _TABLE.read_text().splitlines()


def _agree(ours: list[tuple[Any, ...]], theirs: list[tuple[Any, ...]], sql: str) -> bool:
    """The same rows, but for declared groups that nobody is in: their aggregates are 0 or NULL."""
    items = sqlglot.parse_one(sql, dialect="duckdb").selects
    values = [i for i, item in enumerate(items) if item.find(exp.AggFunc)]
    if not values:
        return set(theirs) <= set(ours)
    told = [
        [r for r in rows if any(r[i] not in (0, None) for i in values)] for rows in (ours, theirs)
    ]
    return same_rows(*told, ordered=False)
