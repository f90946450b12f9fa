"""Contradictions between keys of a policy, found on the mapping as written.

They are looked for beside the check of single values, not after it, so that one reading of the
file reports every mistake. What has the wrong shape is skipped here: `declaration` reports it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tallyveil.policy.axes import KINDS
from tallyveil.policy.mistakes import written

__all__ = ["conflicts"]

_LABEL = "other"
_TARGETS = ("epsilon", "rho", "half_width")
_BUDGETS = "{ epsilon = 3.0 }, { rho = 0.1, delta = 1e-9 } or { epsilon = 3.0, delta = 1e-9 }"


def conflicts(policy: Mapping[str, Any]) -> Iterator[str]:
    """One message per contradiction."""
    defaults = policy.get("defaults")
    if isinstance(defaults, Mapping):
        yield from _defaults(policy, defaults)
    server = policy.get("server")
    tls = server.get("tls") if isinstance(server, Mapping) else None
    if isinstance(tls, Mapping) and "clientcert" in tls and "client_ca" not in tls:
        yield "server.tls.clientcert: expected client_ca beside it, which signs them"
    yield from _names(policy)
    for name, table in _tables(policy):
        budget = table.get("budget")
        if isinstance(budget, Mapping):
            yield from _budget(f"tables.{name}.budget", budget)
        unit = table.get("privacy_unit")
        if isinstance(unit, Mapping):
            yield from _unit(f"tables.{name}.privacy_unit", unit)
            if table.get("count") is not None:
                yield (
                    f'tables.{name}: expected either count or privacy_unit = {{ column = "…", …'
                    " }; both are given. A row that stands for several records does not say whose"
                    " they are."
                )
        attributes = table.get("attributes")
        if isinstance(attributes, Mapping):
            yield from _alike(name, attributes)
            yield from _numbers(f"tables.{name}", table.get("count"), attributes)
            yield from _count_range(f"tables.{name}.count_range", table, attributes)
            for attribute, declared in attributes.items():
                if isinstance(declared, Mapping):
                    yield from _attribute(f"tables.{name}.attributes.{attribute}", declared)
        yield from _invariants(f"tables.{name}.invariants", table, policy.get("public"))


def _alike(table: str, attributes: Mapping[str, Any]) -> Iterator[str]:
    """DuckDB does not tell apart names that differ in case."""
    spelled: dict[str, str] = {}
    for name in map(str, attributes):
        other = spelled.setdefault(name.lower(), name)
        if other != name:
            yield (
                f"tables.{table}.attributes.{name}: expected a name that differs from {other} in "
                "more than upper and lower case"
            )


def _numbers(key: str, count: Any, attributes: Mapping[str, Any]) -> Iterator[str]:
    """With one record more, the others of its row would be in another cell too."""
    for name, declared in attributes.items():
        column = declared.get("column", name) if isinstance(declared, Mapping) else name
        if isinstance(count, str) and str(column).lower() == count.lower():
            yield (
                f"{key}.attributes.{name}: expected another column than {written(count)}, which is"
                f" {key}.count: one record more in a row would change it for all records of the row"
            )


def _defaults(policy: Mapping[str, Any], defaults: Mapping[str, Any]) -> Iterator[str]:
    given = [key for key in _TARGETS if key in defaults]
    if len(given) > 1:
        found = "both are" if len(given) == 2 else "three are"
        yield f"defaults: expected either {' or '.join(given)}; {found} given"
    elif given == ["rho"]:
        for name, table in _tables(policy):
            budget = table.get("budget")
            if isinstance(budget, Mapping) and "delta" not in budget:
                yield (
                    f"defaults.rho: expected epsilon or half_width: the budget of tables.{name} "
                    "is in ε alone"
                )


def _budget(key: str, budget: Mapping[str, Any]) -> Iterator[str]:
    amounts = [k for k in ("epsilon", "rho") if k in budget]
    if len(amounts) != 1:
        found = "both are given" if amounts else "neither is given"
        yield f"{key}: {found}, epsilon and rho; expected {_BUDGETS}"
    elif amounts == ["rho"] and "delta" not in budget:
        yield f"{key}: delta missing; expected {_BUDGETS}"


def _names(policy: Mapping[str, Any]) -> Iterator[str]:
    """Tables, public tables and views are named apart, and a public table says where it is."""
    taken: dict[str, str] = {}
    for kind in ("tables", "public", "views"):
        declared = policy.get(kind)
        for name in declared if isinstance(declared, Mapping) else ():
            if name in taken:
                yield f"{kind}.{name}: expected another name: {taken[name]}.{name} has it already"
            taken.setdefault(name, kind)
    public = policy.get("public")
    for name, table in public.items() if isinstance(public, Mapping) else ():
        if isinstance(table, Mapping) and not {"url", "from"} & table.keys():
            yield f'public.{name}: expected url = "…" or from = "…", or both'


def _tables(policy: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    tables = policy.get("tables")
    if isinstance(tables, Mapping):
        yield from ((k, v) for k, v in tables.items() if isinstance(v, Mapping))


def _invariants(key: str, table: Mapping[str, Any], public: Any) -> Iterator[str]:
    """Each says in one way which counts are exact."""
    declared = table.get("invariants")
    for number, one in enumerate(declared if isinstance(declared, list | tuple) else ()):
        given = [k for k in ("sql", "from_public") if isinstance(one, Mapping) and k in one]
        if isinstance(one, Mapping) and len(given) != 1:
            found = "both are given" if given else "neither is given"
            yield f'{key}[{number}]: expected sql = "SELECT …" or from_public = "…"; {found}'
        elif given == ["from_public"] and isinstance(one["from_public"], str):
            relation, *column = one["from_public"].split(".")
            if column and (not isinstance(public, Mapping) or relation not in public):
                yield (
                    f"{key}[{number}].from_public = {written(one['from_public'])}: expected a"
                    f" public table; there is no [public.{relation}]"
                )


def _unit(key: str, unit: Mapping[str, Any]) -> Iterator[str]:
    missing = [k for k in ("column", "max_rows") if k not in unit]
    if missing:
        yield (
            f'{key}: {" and ".join(missing)} missing; expected "row" or '
            '{ column = "…", max_rows = 3 }'
        )


def _count_range(
    key: str, table: Mapping[str, Any], attributes: Mapping[str, Any]
) -> Iterator[str]:
    declared = table.get("count_range")
    by = declared.get("by") if isinstance(declared, Mapping) else None
    for name in by if isinstance(by, list | tuple) else ():
        if isinstance(name, str) and name not in attributes:
            yield f"{key}.by: expected attributes of the table; {written(name)} is none"


def _attribute(key: str, declared: Mapping[str, Any]) -> Iterator[str]:
    kinds = [kind for kind in KINDS if declared.get(kind) is not None]
    if len(kinds) != 1:
        found = " and ".join(kinds) if kinds else "none"
        yield f"{key}: expected exactly one of {', '.join(KINDS)}; found {found}"
        return
    if declared.get("clamp") is True:
        if kinds == ["values"]:
            yield f"{key}.clamp = true: expected with range or bins only; values have no ends"
        if declared.get("other") not in (None, False):
            yield f"{key}: expected either clamp or other; both are given"
    yield from _label(key, declared)


def _label(key: str, declared: Mapping[str, Any]) -> Iterator[str]:
    """``other`` reads as a label among text, and as NULL among numbers, dates and booleans."""
    other, values = declared.get("other"), declared.get("values")
    text = isinstance(values, list | tuple) and any(isinstance(v, str) for v in values)
    if not text:
        if isinstance(other, str):
            yield (
                f"{key}.other = {written(other)}: expected true or false; a label goes with text "
                "values only, elsewhere other reads as NULL"
            )
        return
    label = _LABEL if other is True else other
    if isinstance(label, str) and isinstance(values, list | tuple) and label in values:
        yield (
            f"{key}.other = {written(other)}: expected a label that is not among the values; "
            f'{written(label)} is, so write other = "another label"'
        )
