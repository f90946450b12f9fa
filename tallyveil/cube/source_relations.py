"""Which relations and files of the source each table's ``from`` reads."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb

from tallyveil.cube.sources import Given, OpenSource, file_database, opened
from tallyveil.policy import Policy, Table
from tallyveil.policy.source_kinds import source_kind
from tallyveil.policy.sql_names import is_table_reference, select_of

__all__ = ["relations_read"]


def relations_read(policy: Policy, source: Given = None) -> dict[str, frozenset[str] | None]:
    """For each table the relations and files that its ``from`` reads, whatever names it uses.

    DuckDB resolves views, common table expressions and macros; a file or a data frame is one
    relation under all its names. Where it cannot be found out, None: it may be any. Raises
    SourceError.
    """
    whole = _whole(policy, source)
    if whole is not None:
        return {name: _of_one(table, policy, whole) for name, table in policy.tables.items()}
    connection = source if isinstance(source, duckdb.DuckDBPyConnection) else None
    with opened(policy, connection) as several:
        return {name: _of_several(table, several) for name, table in policy.tables.items()}


def _whole(policy: Policy, source: Given) -> str | None:
    """What the source is if it is one relation, otherwise None."""
    if source is not None:
        connected = isinstance(source, duckdb.DuckDBPyConnection)
        return None if connected else "the data frame"
    own = policy.source
    if own is None or own.kind.several:
        return None
    return own.url if "://" in own.url else str(own.path.resolve())


def _of_one(table: Table, policy: Policy, whole: str) -> frozenset[str]:
    if is_table_reference(table.origin):
        return frozenset({whole})
    stem = Path(whole).name.split(".")[0].lower()
    names, files = _read(table)
    own = any(name in policy.tables or name == stem for name in names)
    return frozenset({whole, *files} if own or not files else files)


def _of_several(table: Table, source: OpenSource) -> frozenset[str] | None:
    relations, files = source.relations(table.origin), _read(table)[1]
    found = {name for name in relations or () if not _is_file(name)} | files
    known = relations is not None and found and not _is_computed(table)
    return frozenset(found) if known else None


def _is_computed(table: Table) -> bool:
    """Whether ``from`` computes which relations it reads."""
    return re.search(r"\bquery(_table)?\s*\(", table.origin, re.IGNORECASE) is not None


def _read(table: Table) -> tuple[set[str], set[str]]:
    """The names of relations in ``from``, in lower case, and the paths of files."""
    # To open a database takes longer than to open all else of a gate.
    with file_database().cursor() as parser:
        sql = f"FROM (\n{select_of(table.origin)}\n)"
        found = parser.execute("SELECT json_serialize_sql(?)", [sql]).fetchone()
    texts = set(_texts(json.loads(found[0]) if found else None, inside=False))
    files = {text for text in texts if _is_file(text)}
    return {t.lower() for t in texts - files}, {str(Path(file).resolve()) for file in files}


def _texts(node: Any, *, inside: bool) -> Iterator[str]:
    """The names of tables, and the texts ``inside`` calls of table functions."""
    if isinstance(node, list):
        for each in node:
            yield from _texts(each, inside=inside)
    elif isinstance(node, dict):
        kind = node.get("type")
        if kind == "BASE_TABLE":
            yield node["table_name"]
        elif kind == "VALUE_CONSTANT" and inside and node["literal"]["kind"] == "STRING":
            yield node["literal"]["text"]
        for each in node.values():
            yield from _texts(each, inside=inside or kind == "TABLE_FUNCTION")


def _is_file(text: str) -> bool:
    return source_kind(text) is not None
