"""The public relations of schema dp (what can be asked, what it has cost, what was asked) and of
information_schema.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import pyarrow as pa

from tallyveil.accountant import Balance
from tallyveil.gate.interface import ColumnType
from tallyveil.gate.relations.copies import DEBIASED, LAWS, debiased_counts, laws_of
from tallyveil.gate.relations.shown import Shown, domain_of, outside_of, relations_shown
from tallyveil.gate.settings import DESCRIPTIONS, Settings
from tallyveil.gate.shared import Shared
from tallyveil.mechanisms import mechanism, mechanism_names
from tallyveil.mechanisms.spec import PARAMETERS
from tallyveil.policy import Table
from tallyveil.rewriter import relation_name

__all__ = ["RELATIONS", "Viewer", "relation_tables"]

_Row: TypeAlias = dict[str, Any]

_TEXT, _FLOAT, _INT, _BOOL = pa.string(), pa.float64(), pa.int64(), pa.bool_()


@dataclass(frozen=True)
class Viewer:
    """Who reads the relations, in which session. ``described`` returns the columns of a query."""

    gate: Shared
    settings: Settings
    user: str
    database: str
    described: Callable[[str], tuple[ColumnType, ...]]

    def relations(self) -> tuple[Shown, ...]:
        """All relations but those of information_schema."""
        own = {name: schema for name, (_, schema) in _RELATIONS.items() if name.startswith("dp.")}
        return relations_shown(self.gate, own, self.described)


def _budget(viewer: Viewer) -> Iterator[_Row]:
    """A row for each table's budget and, if it has shares, one for the viewer's own.

    What is left to be recorded is the viewer's in both.
    """
    budgets = viewer.gate.budgets
    for name, table in viewer.gate.policy.tables.items():
        left = budgets.room(name, viewer.user).left
        room: _Row = {"rows_left": left.rows, "bytes_left": left.size}
        whole, highest = budgets.balance(name), budgets.most_expensive(name)
        room["guarantee"] = viewer.gate.guarantees[name].sentence(whole)
        yield _balance(table, None, whole, highest) | room
        share = budgets.share(name, viewer.user)
        if share is not None:
            highest = budgets.most_expensive(name, viewer.user)
            yield _balance(table, viewer.user, share, highest) | room


def _balance(table: Table, analyst: str | None, balance: Balance, highest: str | None) -> _Row:
    """What an analyst without a share has spent is not tracked."""
    unit, counted = table.privacy_unit, balance.budget > 0
    return {
        "table_name": table.name,
        "neighbours": table.neighbours,
        "privacy_unit": table.unit_words,
        "max_rows": unit.max_rows,
        "budget": float(balance.budget),
        "spent": float(balance.spent) if counted else None,
        "remaining": float(balance.remaining),
        "exact": balance.exact,
        "unit": balance.measure,
        "delta": None if balance.delta is None else float(balance.delta),
        "epsilon_budget": float(balance.epsilon_budget),
        "epsilon_spent": float(balance.epsilon_spent) if counted else None,
        "analyst": analyst,
        "most_expensive": highest,
    }


def _invariants(viewer: Viewer) -> Iterator[_Row]:
    for name, found in viewer.gate.published.items():
        for source, counted, value in found.rows:
            yield {
                "table_name": name, "source": source, "counted": counted, "value": float(value),
            }  # fmt: skip


def _attributes(viewer: Viewer) -> Iterator[_Row]:
    for name, table in viewer.gate.policy.tables.items():
        for attribute in table.domain.attributes:
            yield {
                "table_name": name,
                "attribute": attribute.name,
                "type": attribute.sql_type,
                "kind": attribute.kind,
                "cells": attribute.size,
                "nullable": attribute.null_cell is not None,
                "domain": domain_of(attribute),
                "outside": outside_of(attribute),
            }


def _history(viewer: Viewer) -> Iterator[_Row]:
    # Charges first: later readings cover them all, except for tables not in the policy any more.
    entries = viewer.gate.budgets.history()
    spent = {r.entry.charge_id: float(r.spent) for r in viewer.gate.budgets.odometer()}
    for entry in entries:
        yield {
            "charge_id": entry.charge_id,
            "time": entry.time.astimezone(dt.UTC).replace(tzinfo=None),
            "analyst": entry.analyst,
            "table_name": entry.table,
            "sql": entry.sql,
            "mechanism": entry.mechanism,
            "cost": float(entry.cost),
            "unit": entry.measure,
            "rows": entry.rows,
            "spent": spent.get(entry.charge_id),
        }


def _versions(viewer: Viewer) -> Iterator[_Row]:
    for name, every in viewer.gate.editions.versions.every.items():
        table = viewer.gate.policy.tables[name]
        for version in every:
            published = dt.datetime.fromisoformat(version.published)
            yield {
                "table_name": name,
                "version": version.number,
                "kind": "replace" if version.replaced else "append",
                "through": version.through,
                "published": table.data.time(published).replace(tzinfo=None),
            }


def _public(viewer: Viewer) -> Iterator[_Row]:
    for name, table in viewer.gate.policy.public.items():
        yield {"name": name, "kind": "table", "definition": table.origin}
    for name, sql in viewer.gate.policy.view_sql.items():
        yield {"name": name, "kind": "view", "definition": sql}


def _mechanisms(viewer: Viewer) -> Iterator[_Row]:
    for name in mechanism_names():
        takes = PARAMETERS.get(name, ())
        noise = mechanism(f"{name}(n=1)" if takes else name)
        yield {
            "name": name,
            "parameters": ", ".join(takes) or None,
            "budgets": "rho" if noise.needs_delta else "epsilon, rho",
            "guarantee": noise.guarantee,
        }


def _settings(viewer: Viewer) -> Iterator[_Row]:
    for name, description in DESCRIPTIONS.items():
        yield {"name": name, "value": viewer.settings.show(name), "description": description}


def _sanitised(viewer: Viewer) -> Iterator[_Row]:
    return laws_of(viewer.gate.copies)


def _debiased(viewer: Viewer) -> pa.Table:
    return debiased_counts(viewer.gate.copies, viewer.settings)


def _tables(viewer: Viewer) -> Iterator[_Row]:
    for one in viewer.relations():
        yield {
            "table_catalog": viewer.database,
            "table_schema": one.schema,
            "table_name": one.name,
            "table_type": "BASE TABLE" if one.definition is None else "VIEW",
            "table_comment": one.comment,
        }


def _columns(viewer: Viewer) -> Iterator[_Row]:
    for one in viewer.relations():
        for number, column in enumerate(one.columns):
            yield {
                "table_catalog": viewer.database,
                "table_schema": one.schema,
                "table_name": one.name,
                "column_name": column.name,
                "ordinal_position": number + 1,
                "is_nullable": "YES" if column.nullable else "NO",
                "data_type": column.type,
                "column_comment": column.comment,
            }


_Rows: TypeAlias = Callable[[Viewer], Iterable[_Row] | pa.Table]

_RELATIONS: Final[Mapping[str, tuple[_Rows, pa.Schema]]] = MappingProxyType(
    {
        "dp.budget": (_budget, pa.schema([
            ("table_name", _TEXT), ("neighbours", _TEXT), ("privacy_unit", _TEXT),
            ("max_rows", _INT), ("budget", _FLOAT), ("spent", _FLOAT), ("remaining", _FLOAT),
            ("exact", _BOOL), ("unit", _TEXT), ("delta", _FLOAT), ("epsilon_budget", _FLOAT),
            ("epsilon_spent", _FLOAT), ("analyst", _TEXT), ("most_expensive", _TEXT),
            ("rows_left", _INT), ("bytes_left", _INT), ("guarantee", _TEXT),
        ])),
        "dp.attributes": (_attributes, pa.schema([
            ("table_name", _TEXT), ("attribute", _TEXT), ("type", _TEXT), ("kind", _TEXT),
            ("cells", _INT), ("nullable", _BOOL), ("domain", _TEXT), ("outside", _TEXT),
        ])),
        "dp.history": (_history, pa.schema([
            ("charge_id", _INT), ("time", pa.timestamp("us")), ("analyst", _TEXT),
            ("table_name", _TEXT), ("sql", _TEXT), ("mechanism", _TEXT), ("cost", _FLOAT),
            ("unit", _TEXT), ("rows", _INT), ("spent", _FLOAT),
        ])),
        "dp.invariants": (_invariants, pa.schema([
            ("table_name", _TEXT), ("source", _TEXT), ("counted", _TEXT), ("value", _FLOAT),
        ])),
        "dp.mechanisms": (_mechanisms, pa.schema([
            ("name", _TEXT), ("parameters", _TEXT), ("budgets", _TEXT), ("guarantee", _TEXT),
        ])),
        "dp.public": (_public, pa.schema([
            ("name", _TEXT), ("kind", _TEXT), ("definition", _TEXT),
        ])),
        "dp.settings": (_settings, pa.schema([
            ("name", _TEXT), ("value", _TEXT), ("description", _TEXT),
        ])),
        "dp.versions": (_versions, pa.schema([
            ("table_name", _TEXT), ("version", _INT), ("kind", _TEXT), ("through", pa.date32()),
            ("published", pa.timestamp("us")),
        ])),
        "dp.sanitised": (_sanitised, LAWS),
        "dp.debiased": (_debiased, DEBIASED),
        "information_schema.tables": (_tables, pa.schema([
            ("table_catalog", _TEXT), ("table_schema", _TEXT), ("table_name", _TEXT),
            ("table_type", _TEXT), ("table_comment", _TEXT),
        ])),
        "information_schema.columns": (_columns, pa.schema([
            ("table_catalog", _TEXT), ("table_schema", _TEXT), ("table_name", _TEXT),
            ("column_name", _TEXT), ("ordinal_position", _INT), ("is_nullable", _TEXT),
            ("data_type", _TEXT), ("column_comment", _TEXT),
        ])),
    }
)  # fmt: skip

RELATIONS: Final = frozenset(_RELATIONS)


def relation_tables(names: frozenset[str], viewer: Viewer) -> dict[str, pa.Table]:
    """The named relations as they are now, under the names plans read them by."""
    return {relation_name(name): _table(*_RELATIONS[name], viewer) for name in names}


def _table(rows: _Rows, schema: pa.Schema, viewer: Viewer) -> pa.Table:
    found = rows(viewer)
    return found if isinstance(found, pa.Table) else pa.Table.from_pylist([*found], schema=schema)
