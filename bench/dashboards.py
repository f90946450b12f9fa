"""What the statements of dashboard tools cost, and why some are refused: processor seconds.

Each workbook has tables of its own, made with the declared columns, and a policy whose groups are
at most 100,000. Its statements are described and executed one after the other. Those that take a
second or more are printed, the refusals by their reasons, and a line about all.

    make bench NAME=dashboards
    CORPUS=/data/public_bi_benchmark/benchmark make bench NAME=dashboards    and that corpus
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp

from bench.cliffs import Taken, taken
from bench.measure import report
from tallyveil import parse_policy
from tallyveil.gate import Gate
from tallyveil.policy import Domain
from tallyveil.proxy.housekeeping import short_pauses

__all__ = ["CORPUS", "OWN", "Workbook", "asked", "workbooks"]

OWN: Final = Path(__file__).with_name("workbooks")
CORPUS = Path(os.environ.get("CORPUS", "../shared/sql/public_bi"))

_BETWEEN: Final = re.compile(r";\s*(?:\n|$)|\n(?=SELECT )")
_SLOW: Final = 1.0
_TEXTS: Final = 200  # values of an attribute of texts, of which some are in the statements
_NUMBERS: Final = 2_000
_DAYS: Final = (dt.date(2000, 1, 1), dt.date(2019, 12, 31))
_RECORDS: Final = 1_000


@dataclass(frozen=True)
class Workbook:
    """Statements, and the columns of their tables with their declared types, both as they are
    written.
    """

    name: str
    tables: Mapping[str, Mapping[str, exp.DType]]
    statements: tuple[str, ...]


def workbooks(folder: Path) -> Iterator[Workbook]:
    """The folder's, in the layout that ``workbooks/README.md`` describes."""
    for own in sorted(path for path in folder.iterdir() if path.is_dir()):
        tables: dict[str, dict[str, exp.DType]] = {}
        for path in sorted(own.glob("tables/*.table.sql")):
            tree = sqlglot.parse_one(path.read_text(), "postgres")
            (table,) = tree.find_all(exp.Table)
            columns = {column.name: column.args["kind"] for column in tree.find_all(exp.ColumnDef)}
            tables[table.name] = {name: kind.this for name, kind in columns.items()}
        texts = (path.read_text() for path in sorted(own.glob("queries*/*.sql")))
        statements = (one.strip(" \n;") for text in texts for one in _BETWEEN.split(text))
        yield Workbook(own.name, tables, tuple(dict.fromkeys(filter(None, statements))))


def asked(workbook: Workbook) -> Iterator[tuple[str, Taken]]:
    """Each statement and what it took, one after the other."""
    names = _names(workbook)
    with (
        tempfile.TemporaryDirectory() as base,
        short_pauses(),
        contextlib.closing(_gate(workbook, names, Path(base))) as gate,
    ):
        for statement in workbook.statements:
            yield statement, taken(gate, _renamed(statement, names))


def _names(workbook: Workbook) -> Mapping[str, str]:
    """A name that a policy can declare for each table and column."""
    found: dict[str, str] = {}
    for table, columns in workbook.tables.items():
        found[table] = re.sub(r"\W", "_", table.lower(), flags=re.ASCII)
        for column in columns:
            plain = re.sub(r"\W", "_", column, flags=re.ASCII)
            while plain.lower() in {name.lower() for n, name in found.items() if n != column}:
                plain += "_"
            found[column] = plain if plain[0].isalpha() else f"c{plain}"
    return found


def _renamed(text: str, names: Mapping[str, str]) -> str:
    return re.sub(r'"([^"]+)"', lambda quoted: f'"{names.get(quoted[1], quoted[1])}"', text)


def _gate(workbook: Workbook, names: Mapping[str, str], base: Path) -> Gate:
    found = (re.findall(r"'([^']*)'", statement) for statement in workbook.statements)
    texts = tuple(dict.fromkeys(text for some in found for text in some))[: _TEXTS // 2]
    declared = {
        names[table]: {
            "attributes": {names[n]: _attribute(kind, texts) for n, kind in columns.items()},
            "neighbours": "add_remove",
            "budget": {"epsilon": 10**6},
        }
        for table, columns in workbook.tables.items()
    }
    policy = parse_policy({"tables": declared, "defaults": {"epsilon": 1.0}}, base=base)
    with duckdb.connect(":memory:") as source:
        for name, table in policy.tables.items():
            source.from_arrow(_records(table.domain)).create(name)
        return Gate(policy, source)


def _attribute(kind: exp.DType, texts: Iterable[str]) -> dict[str, Any]:
    if kind is exp.DType.BOOLEAN:
        return {"values": [True, False], "nullable": True}
    if kind in exp.DataType.NUMERIC_TYPES:
        return {"range": [0, _NUMBERS - 1], "nullable": True}
    if kind in exp.DataType.TEMPORAL_TYPES:
        return {"range": list(_DAYS), "nullable": True}
    values = dict.fromkeys([*texts, *(f"value {n:03}" for n in range(_TEXTS))])
    return {"values": list(values)[:_TEXTS], "nullable": True}


def _records(domain: Domain) -> pa.Table:
    columns = {
        axis.name: [axis.cells[row * (7 + n) % axis.size] for row in range(_RECORDS)]
        for n, axis in enumerate(domain.attributes)
    }
    return pa.table(columns)


def main() -> None:
    if not CORPUS.is_dir():
        report(bench="dashboards", corpus=str(CORPUS), skipped="there is no such folder")
    folders = [OWN, CORPUS] if CORPUS.is_dir() else [OWN]
    for folder in folders:
        results = [
            (book.name, statement, found)
            for book in workbooks(folder)
            for statement, found in asked(book)
        ]
        for name, statement, found in results:
            if found.seconds >= _SLOW:
                cpu = round(found.seconds, 2)
                report(bench="dashboards", workbook=name, cpu_s=cpu, statement=statement[:200])
        refusals = Counter(f.refusal for _, _, f in results if f.refusal is not None)
        for reason, times in refusals.most_common():
            report(bench="dashboards", refusal=reason, statements=times)
        seconds = sorted(found.seconds for _, _, found in results)
        report(
            bench="dashboards",
            corpus=folder.name,
            statements=len(results),
            answered=len(results) - refusals.total(),
            over_1_s=sum(one > 1 for one in seconds),
            over_2_s=sum(one > 2 for one in seconds),
            most_s=round(seconds[-1], 2),
        )


if __name__ == "__main__":
    main()
