"""Contradictions between keys of a policy, found on the mapping as written.

They are searched whether or not the checks of single values pass, so that one reading of the file
reports every mistake. Values of the wrong shape are skipped here: `declaration` reports them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tallyveil.policy.axes import KINDS, LABEL
from tallyveil.policy.mistakes import written

__all__ = ["conflicts", "one_given", "sequence", "table_of", "tables_of"]

_TARGETS = ("epsilon", "rho", "half_width")
_BUDGETS = "{ epsilon = 3.0 }, { rho = 0.1, delta = 1e-9 } or { epsilon = 3.0, delta = 1e-9 }"


def conflicts(policy: Mapping[str, Any]) -> Iterator[str]:
    """Yield one message per contradiction."""
    yield from _defaults(policy, table_of(policy, "defaults"))
    tls = table_of(table_of(policy, "server"), "tls")
    if "clientcert" in tls and "client_ca" not in tls:
        yield "server.tls.clientcert: expected also client_ca, which signs clients' certificates"
    yield from _names(policy)
    for name, table in tables_of(policy, "tables"):
        yield from _table(f"tables.{name}", name, table)
        yield from _invariants(f"tables.{name}.invariants", table, table_of(policy, "public"))


def table_of(mapping: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return the table of keys at ``key``; an empty one for anything else."""
    found = mapping.get(key)
    return found if isinstance(found, Mapping) else {}


def tables_of(mapping: Mapping[str, Any], key: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the tables of keys within the table at ``key``, by name."""
    named = table_of(mapping, key).items()
    yield from ((str(name), one) for name, one in named if isinstance(one, Mapping))


def sequence(mapping: Mapping[str, Any], key: str) -> Sequence[Any]:
    """Return the list at ``key``; an empty one for anything else."""
    found = mapping.get(key)
    return found if isinstance(found, list | tuple) else ()


def one_given(mapping: Mapping[str, Any], *keys: str) -> tuple[str | None, str]:
    """Return the only given key of two, or None and the fault: "both are given", "neither …"."""
    given = [key for key in keys if key in mapping]
    if len(given) == 1:
        return given[0], ""
    return None, "both are given" if given else "neither is given"


def _table(key: str, name: str, table: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(table.get("budget"), Mapping):
        yield from _budget(f"{key}.budget", table["budget"])
    if isinstance(table.get("privacy_unit"), Mapping):
        yield from _unit(f"{key}.privacy_unit", table["privacy_unit"])
        if table.get("count") is not None:
            yield (
                f'{key}: expected either count or privacy_unit = {{ column = "…", … }}; both are'
                " given. A row that stands for several records cannot name the unit of each."
            )
    attributes = table.get("attributes")
    if isinstance(attributes, Mapping):
        yield from _case_conflicts(name, attributes)
        yield from _count_conflicts(key, table.get("count"), attributes)
        yield from _count_range(f"{key}.count_range", table, attributes)
    for attribute, declared in tables_of(table, "attributes"):
        yield from _attribute(f"{key}.attributes.{attribute}", declared)


def _case_conflicts(table: str, attributes: Mapping[str, Any]) -> Iterator[str]:
    """Refuse names that differ only in case, which are equal to DuckDB."""
    seen: dict[str, str] = {}
    for name in map(str, attributes):
        other = seen.setdefault(name.lower(), name)
        if other != name:
            yield (
                f"tables.{table}.attributes.{name}: expected a name that differs from {other} in "
                "more than upper and lower case"
            )


def _count_conflicts(key: str, count: Any, attributes: Mapping[str, Any]) -> Iterator[str]:
    """Refuse an attribute of the column ``count``: one more record in a row would move the row's
    other records to another cell."""
    for name in attributes:
        column = table_of(attributes, name).get("column", name)
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
        for name, table in tables_of(policy, "tables"):
            budget = table.get("budget")
            if isinstance(budget, Mapping) and "delta" not in budget:
                yield (
                    f"defaults.rho: expected epsilon or half_width: the budget of tables.{name} "
                    "is in ε alone"
                )


def _budget(key: str, budget: Mapping[str, Any]) -> Iterator[str]:
    amount, found = one_given(budget, "epsilon", "rho")
    if amount is None:
        yield f"{key}: {found}, epsilon and rho; expected {_BUDGETS}"
    elif amount == "rho" and "delta" not in budget:
        yield f"{key}: delta missing; expected {_BUDGETS}"


def _names(policy: Mapping[str, Any]) -> Iterator[str]:
    """Refuse names used twice among tables, public tables and views, and public tables without a
    place to read them from."""
    taken: dict[str, str] = {}
    for kind in ("tables", "public", "views"):
        for name in table_of(policy, kind):
            if name in taken:
                yield f"{kind}.{name}: expected another name: {taken[name]}.{name} has it already"
            taken.setdefault(name, kind)
    for name, table in tables_of(policy, "public"):
        if not {"url", "from"} & table.keys():
            yield f'public.{name}: expected url = "…" or from = "…", or both'


def _invariants(key: str, table: Mapping[str, Any], public: Mapping[str, Any]) -> Iterator[str]:
    """Require exactly one of sql and from_public, and that from_public names a public table."""
    for number, one in enumerate(sequence(table, "invariants")):
        if not isinstance(one, Mapping):
            continue
        given, found = one_given(one, "sql", "from_public")
        if given is None:
            yield f'{key}[{number}]: expected sql = "SELECT …" or from_public = "…"; {found}'
        elif given == "from_public" and isinstance(one["from_public"], str):
            relation, *column = one["from_public"].split(".")
            if column and relation not in public:
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
    names = sequence(table_of(table, "count_range"), "by")
    for name in names if all(isinstance(name, str) and name for name in names) else ():
        if name not in attributes:
            yield f"{key}.by: expected attributes of the table; {written(name)} is not one"


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
    yield from _label(key, declared.get("other"), sequence(declared, "values"))


def _label(key: str, other: Any, values: Sequence[Any]) -> Iterator[str]:
    """Check ``other``: a label among text, or true or false elsewhere, where it reads as NULL."""
    label = LABEL if other is True else other
    if not isinstance(label, str):
        return
    if any(isinstance(value, str) for value in values):
        if label in values:
            yield (
                f"{key}.other = {written(other)}: expected a label that is not among the values; "
                f'{written(label)} is, so write other = "another label"'
            )
        elif "\0" in label:
            yield f"{key}.other = {written(other)}: expected text without NUL characters"
    elif other is not True:
        yield (
            f"{key}.other = {written(other)}: expected true or false; a label goes with text "
            "values only, elsewhere other reads as NULL"
        )
