"""The public relations of schema dp: what can be asked, what it has cost, what was asked."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import pyarrow as pa

from tallyveil.accountant import Balance
from tallyveil.gate.copies import COPY_RELATIONS
from tallyveil.gate.settings import DESCRIPTIONS, Settings
from tallyveil.gate.shared import Shared
from tallyveil.mechanisms import PARAMETERS, mechanism, mechanism_names
from tallyveil.policy import Attribute, Table
from tallyveil.sanitise import Copy

__all__ = ["RELATIONS", "Viewer", "domain_of", "outside_of", "relation_tables"]

_Row: TypeAlias = dict[str, Any]

_TEXT, _FLOAT, _INT, _BOOL = pa.string(), pa.float64(), pa.int64(), pa.bool_()


@dataclass(frozen=True)
class Viewer:
    """Who looks at which house."""

    gate: Shared
    settings: Settings
    user: str


def _budget(viewer: Viewer) -> pa.Table:
    """A row for each table's budget, and where it has shares one for the viewer's own.

    What is left to be recorded is the viewer's in both.
    """
    rows = []
    accountant = viewer.gate.accountant
    for name, table in viewer.gate.policy.tables.items():
        left = accountant.room(name, viewer.user).left
        room: _Row = {"rows_left": left.rows, "bytes_left": left.size}
        highest = accountant.most_expensive(name)
        room["guarantee"] = viewer.gate.guarantees[name].sentence
        rows.append(_balance(table, None, accountant.balance(name), highest) | room)
        share = accountant.share(name, viewer.user)
        if share is not None:
            highest = accountant.most_expensive(name, viewer.user)
            rows.append(_balance(table, viewer.user, share, highest) | room)
    return pa.Table.from_pylist(rows, schema=_SCHEMAS["budget"])


def _balance(table: Table, analyst: str | None, balance: Balance, highest: str | None) -> _Row:
    """What somebody without a share has spent is not kept count of."""
    unit, counted = table.privacy_unit, balance.budget > 0
    return {
        "table_name": table.name,
        "neighbours": table.neighbours,
        "privacy_unit": unit.words,
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


def _invariants(viewer: Viewer) -> pa.Table:
    tables = [
        pa.Table.from_pydict(
            {
                "table_name": [name] * len(found.rows),
                "source": [row.source for row in found.rows],
                "counted": [row.counted for row in found.rows],
                "value": [float(row.value) for row in found.rows],
            },
            schema=_SCHEMAS["invariants"],
        )
        for name, found in viewer.gate.published.items()
    ]
    return pa.concat_tables(tables) if tables else _SCHEMAS["invariants"].empty_table()


def _attributes(viewer: Viewer) -> pa.Table:
    rows = [
        {
            "table_name": name,
            "attribute": attribute.name,
            "type": attribute.sql_type,
            "kind": attribute.kind,
            "cells": attribute.size,
            "nullable": attribute.null_cell is not None,
            "domain": domain_of(attribute),
            "outside": outside_of(attribute),
        }
        for name, table in viewer.gate.policy.tables.items()
        for attribute in table.domain.attributes
    ]
    return pa.Table.from_pylist(rows, schema=_SCHEMAS["attributes"])


def domain_of(attribute: Attribute, most: int | None = None) -> str:
    """What it may hold; of values in a list the first ``most``."""
    if attribute.edges is not None:
        return "[" + _listed(attribute.edges, most) + ")"
    values = [v for v in attribute.cells if v is not None]
    by_day = ", timestamps by the day" if attribute.coarse else ""
    if attribute.stepped:
        return f"{values[0]} to {values[-1]}{by_day}"
    return _listed(values, most) + by_day


def _listed(values: Sequence[object], most: int | None) -> str:
    if most is None or len(values) <= most:
        return ", ".join(map(str, values))
    return ", ".join(map(str, values[:most])) + f", … ({len(values)} values)"


def outside_of(attribute: Attribute) -> str:
    """What becomes of a record whose value is not declared."""
    if attribute.clamp:
        return "clamped"
    return "left out" if attribute.other_cell is None else "other"


def _history(viewer: Viewer) -> pa.Table:
    # Charges first: readings taken later cover them all, but for tables the policy has no more.
    entries = viewer.gate.accountant.history()
    spent = {r.entry.charge_id: float(r.spent) for r in viewer.gate.accountant.odometer()}
    rows = [
        {
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
        for entry in entries
    ]
    return pa.Table.from_pylist(rows, schema=_SCHEMAS["history"])


def _public(viewer: Viewer) -> pa.Table:
    tables = [
        {"name": name, "kind": "table", "definition": table.origin}
        for name, table in viewer.gate.policy.public.items()
    ]
    views = [
        {"name": n, "kind": "view", "definition": sql}
        for n, sql in viewer.gate.policy.views.items()
    ]
    return pa.Table.from_pylist([*tables, *views], schema=_SCHEMAS["public"])


def _mechanisms(viewer: Viewer) -> pa.Table:
    rows = []
    for name in mechanism_names():
        takes = PARAMETERS.get(name, ())
        noise = mechanism(f"{name}(n=1)" if takes else name)
        rows.append(
            {
                "name": name,
                "parameters": ", ".join(takes) or None,
                "budgets": "rho" if noise.needs.delta else "epsilon, rho",
                "guarantee": noise.guarantee,
            }
        )
    return pa.Table.from_pylist(rows, schema=_SCHEMAS["mechanisms"])


def _settings(viewer: Viewer) -> pa.Table:
    rows = [
        {"name": name, "value": viewer.settings.show(name), "description": description}
        for name, description in DESCRIPTIONS.items()
    ]
    return pa.Table.from_pylist(rows, schema=_SCHEMAS["settings"])


_SCHEMAS: Final[Mapping[str, pa.Schema]] = MappingProxyType(
    {
        "budget": pa.schema(
            [
                ("table_name", _TEXT), ("neighbours", _TEXT), ("privacy_unit", _TEXT),
                ("max_rows", _INT), ("budget", _FLOAT), ("spent", _FLOAT),
                ("remaining", _FLOAT), ("exact", _BOOL), ("unit", _TEXT), ("delta", _FLOAT),
                ("epsilon_budget", _FLOAT), ("epsilon_spent", _FLOAT), ("analyst", _TEXT),
                ("most_expensive", _TEXT), ("rows_left", _INT), ("bytes_left", _INT),
                ("guarantee", _TEXT),
            ]
        ),
        "attributes": pa.schema(
            [
                ("table_name", _TEXT), ("attribute", _TEXT), ("type", _TEXT), ("kind", _TEXT),
                ("cells", _INT), ("nullable", _BOOL), ("domain", _TEXT), ("outside", _TEXT),
            ]
        ),
        "history": pa.schema(
            [
                ("charge_id", _INT), ("time", pa.timestamp("us")), ("analyst", _TEXT),
                ("table_name", _TEXT), ("sql", _TEXT), ("mechanism", _TEXT), ("cost", _FLOAT),
                ("unit", _TEXT), ("rows", _INT), ("spent", _FLOAT),
            ]
        ),
        "invariants": pa.schema(
            [("table_name", _TEXT), ("source", _TEXT), ("counted", _TEXT), ("value", _FLOAT)]
        ),
        "mechanisms": pa.schema(
            [("name", _TEXT), ("parameters", _TEXT), ("budgets", _TEXT), ("guarantee", _TEXT)]
        ),
        "public": pa.schema([("name", _TEXT), ("kind", _TEXT), ("definition", _TEXT)]),
        "settings": pa.schema([("name", _TEXT), ("value", _TEXT), ("description", _TEXT)]),
    }
)  # fmt: skip

_MAKERS: Final[Mapping[str, Callable[[Viewer], pa.Table]]] = MappingProxyType(
    {
        "budget": _budget,
        "attributes": _attributes,
        "history": _history,
        "invariants": _invariants,
        "mechanisms": _mechanisms,
        "public": _public,
        "settings": _settings,
    }
)

RELATIONS: Final = frozenset({*_MAKERS, *COPY_RELATIONS})


def relation_tables(
    names: frozenset[str],
    viewer: Viewer,
    copies: Mapping[str, Copy],
) -> dict[str, pa.Table]:
    """The named relations as they are now, under the names plans read them by."""
    return {
        f"__dp_{name}": COPY_RELATIONS[name](copies, viewer.settings)
        if name in COPY_RELATIONS
        else _MAKERS[name](viewer)
        for name in names
    }
