"""SmartNoise's metadata, a YAML file: collection, schema, table, and keys and columns of the table.

Used are ``row_privacy``, ``max_ids`` and, of a column, ``type``, ``lower``, ``upper``,
``private_id``, ``nullable`` and ``cardinality``. The other keys choose how SmartNoise answers, and
have no counterpart. Values of texts and days are not in such a file, and stay blank.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from tallyveil.cli.drafting.declarations import Declared, of_range, steps
from tallyveil.cli.drafting.draft import TableDraft
from tallyveil.cli.drafting.toml_text import quoted
from tallyveil.cube import SourceTable
from tallyveil.errors import PolicyError, SourceError
from tallyveil.policy.policy_file import read_policy
from tallyveil.policy.sql_names import name_mistake
from tallyveil.quoting import identifier

__all__ = ["matched", "read_metadata"]

_UNUSED: Final = (
    *("rows", "rows_exact", "sample_max_ids", "censor_dims"),
    *("clamp_counts", "clamp_columns", "use_dpsu"),
)
_KEYS: Final = ("row_privacy", "max_ids", *_UNUSED)
_OF_NUMBERS: Final = ("int", "float")
_TYPES: Final = (*_OF_NUMBERS, "string", "boolean", "datetime")


def read_metadata(path: Path) -> list[TableDraft]:
    """Raises PolicyError, which lists every mistake."""
    what = f"metadata {path}"
    try:
        tree = yaml.safe_load(read_policy(path, "metadata"))
    except yaml.YAMLError as error:
        raise PolicyError(f"the {what} is not valid YAML", [str(error)]) from None
    reader = _Reader()
    found = list(reader.tables(tree))
    if reader.mistakes or not found:
        missing = ["expected a collection with a schema with a table, one below the other"]
        raise PolicyError(f"the {what} cannot be read", reader.mistakes or missing)
    return found


@dataclass
class _Reader:
    mistakes: list[str] = field(default_factory=list)

    def tables(self, tree: Any) -> Iterator[TableDraft]:
        for collection, schemas in self.mapping("the file", tree).items():
            if collection == "engine":
                continue
            for schema, tables in self.mapping(str(collection), schemas).items():
                for name, keys in self.mapping(f"{collection}.{schema}", tables).items():
                    yield self.table(f"{collection}.{schema}.{name}", str(name), keys)

    def table(self, key: str, name: str, keys: Any) -> TableDraft:
        given = self.mapping(key, keys)
        columns = {str(n): c for n, c in given.items() if n not in _KEYS}
        declared = [(n, self.column(f"{key}.{n}", c)) for n, c in columns.items()]
        most = given.get("max_ids", 1)
        if not isinstance(most, int) or isinstance(most, bool) or most < 1:
            self.mistakes.append(f"{key}.max_ids = {most}: expected a whole number from 1 on")
        ids = [n for n, c in columns.items() if isinstance(c, Mapping) and c.get("private_id")]
        unit = None
        if given.get("row_privacy"):
            unit = '"row"'
        elif len(ids) == 1:
            unit = f"{{ column = {quoted(ids[0])}, max_rows = {most} }}"
        unused = [n for n in _UNUSED if n in given]
        note = f"Not used of SmartNoise's metadata: {', '.join(unused)}."
        origin = name if name_mistake(name, cased=True) is None else identifier(name)
        return TableDraft(name, origin, declared, unit, ids, [note] if unused else [])

    def column(self, key: str, keys: Any) -> Declared:
        given = self.mapping(key, keys)
        kind = str(given.get("type", "")).lower()
        if kind not in _TYPES:
            self.mistakes.append(f"{key}.type: expected one of {', '.join(_TYPES)}")
        low, high = (
            self.number(f"{key}.{end}", given.get(end), kind) for end in ("lower", "upper")
        )
        nullable = {} if given.get("nullable") is False else {"nullable": True}
        unused, remark = bool(given.get("private_id")), kind
        if unused:
            return Declared({"range": []}, f"{kind}; private_id", unused)
        if kind == "int":
            return Declared(of_range(low, high) | {"clamp": True} | nullable, remark)
        if kind == "float":
            bins = [] if low is None or high is None or low > high else steps(low, high)
            return Declared({"bins": bins, "clamp": True, "nullable": True}, remark)
        if kind == "boolean":
            return Declared({"values": [True, False], "other": True}, remark)
        if kind == "datetime":
            return Declared({"range": [], "other": True}, f"{remark}, by the day")
        if "cardinality" in given:
            remark += f"; cardinality {given['cardinality']}"
        return Declared({"values": [], "other": True} | nullable, remark)

    def number(self, key: str, value: Any, kind: str) -> Any:
        if value is None or kind not in _OF_NUMBERS:
            return None
        right = isinstance(value, int | float) and not isinstance(value, bool)
        if not right or not math.isfinite(value) or (kind == "int" and value != int(value)):
            numbers = "a whole number" if kind == "int" else "a number"
            self.mistakes.append(f"{key} = {value}: expected {numbers}")
            return None
        return int(value) if kind == "int" else value

    def mapping(self, key: str, value: Any) -> Mapping[Any, Any]:
        if isinstance(value, Mapping):
            return value
        self.mistakes.append(f"{key}: expected keys below it")
        return {}


def matched(drafts: Sequence[TableDraft], tables: Sequence[SourceTable]) -> list[TableDraft]:
    """The drafts with the names that the source has. Raises SourceError with all that it lacks."""
    named = {table.name.lower(): table for table in tables}
    missing: list[str] = []
    found = []
    for draft in drafts:
        only = tables[0] if len(tables) == len(drafts) == 1 and not tables[0].origin else None
        table = only or named.get(draft.name.lower())
        if table is None:
            missing.append(f"the source has no table {draft.name}")
            continue
        columns = {column.name.lower(): column.name for column in table.columns}
        lacking = [name for name, _ in draft.columns if name.lower() not in columns]
        missing += [f"{draft.name}.{name}: the source has no such column" for name in lacking]
        own = [(columns.get(name.lower(), name), declared) for name, declared in draft.columns]
        found.append(draft._replace(origin=table.origin, columns=own))
    if missing:
        first, *others = missing
        raise SourceError(
            first,
            detail="\n".join(others) or None,
            hint="Correct the metadata, or name another source.",
        )
    return found
