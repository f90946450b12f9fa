"""Analysts' shares of the tables' budgets: contradictions as written, and the shares themselves.

A share is told as its table's budget is: in epsilon where that has epsilon, in rho where it has
rho. δ is the table's own.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from pydantic_core import PydanticCustomError

from tallyveil.policy import checks
from tallyveil.policy.declaration import AnalystDeclaration, BudgetDeclaration
from tallyveil.policy.mistakes import dotted, written
from tallyveil.policy.model import Budget, Table

__all__ = ["share_conflicts", "shares"]

_AMOUNTS = ("epsilon", "rho")
_CHECKS = MappingProxyType({"epsilon": checks.epsilon, "rho": checks.rho, "delta": checks.delta})


def shares(
    declared: Mapping[str, AnalystDeclaration], tables: Mapping[str, Table]
) -> dict[str, Mapping[str, Budget]]:
    """Each analyst's shares by table. What is said of a table goes before what is said of all."""
    found: dict[str, Mapping[str, Budget]] = {}
    for name, analyst in declared.items():
        own: dict[str, Budget] = {}
        for table in tables.values():
            said = analyst.tables.get(table.name)
            amount = analyst.budget if said is None else said.budget
            if amount is not None:
                own[table.name] = _share(amount, table)
        found[name] = MappingProxyType(own)
    return found


def _share(amount: BudgetDeclaration, table: Table) -> Budget:
    return Budget(amount.epsilon, amount.rho, table.budget.delta)


def share_conflicts(policy: Mapping[str, Any]) -> Iterator[str]:
    """One message per contradiction between the shares, or of a share and its table's budget."""
    budgets = {
        name: table["budget"]
        for name, table in _mapping(policy.get("tables")).items()
        if isinstance(table, Mapping) and isinstance(table.get("budget"), Mapping)
    }
    for name, analyst in _mapping(policy.get("analysts")).items():
        if not isinstance(name, str) or not isinstance(analyst, Mapping):
            continue
        key = dotted(("analysts", name))
        own = _mapping(analyst.get("tables"))
        if analyst.get("budget") is None and "tables" not in analyst:
            yield f"{key}: budget missing; expected a share such as budget = {{ epsilon = 1.0 }}"
        for table, share in own.items():
            here = dotted(("analysts", name, "tables", table))
            if table not in _mapping(policy.get("tables")):
                yield f"{here}: {_unknown(table, policy)}"
            elif isinstance(share, Mapping) and isinstance(share.get("budget"), Mapping):
                told = {table: budgets[table]} if table in budgets else {}
                yield from _share_conflicts(f"{here}.budget", share["budget"], told)
        general = analyst.get("budget")
        if isinstance(general, Mapping):
            rest = {table: budget for table, budget in budgets.items() if table not in own}
            yield from _share_conflicts(f"{key}.budget", general, rest)


def _share_conflicts(
    key: str, share: Mapping[str, Any], budgets: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    amounts = [kind for kind in _AMOUNTS if kind in share]
    if len(amounts) != 1:
        found = "both are given" if amounts else "neither is given"
        yield f"{key}: {found}, epsilon and rho; expected the one its table's budget has"
        return
    for table, budget in budgets.items():
        kinds = [kind for kind in _AMOUNTS if kind in budget]
        if len(kinds) == 1:
            yield from _against(key, share, amounts[0], table, budget, kinds[0])


def _against(
    key: str, share: Mapping[str, Any], given: str, table: str, budget: Mapping[str, Any], kind: str
) -> Iterator[str]:
    owner = dotted(("tables", table, "budget"))
    if given != kind:
        yield (
            f"{key}.{given} = {written(share[given])}: expected {kind}, as in {owner}; "
            "shares of tables whose budgets differ in kind are given table by table"
        )
        return
    amount, whole = _amount(kind, share[kind]), _amount(kind, budget[kind])
    if amount is not None and whole is not None and not amount <= whole:
        yield (
            f"{key}.{kind} = {written(share[kind])}: expected at most "
            f"{written(budget[kind])}, the {kind} of {owner}"
        )
    if "delta" in share:
        delta = _amount("delta", share["delta"])
        if delta is not None and delta != _amount("delta", budget.get("delta")):
            yield (
                f"{key}.delta = {written(share['delta'])}: expected none: "
                f"a share is told at the delta of {owner}"
            )


def _amount(kind: str, value: Any) -> Fraction | None:
    """None for what `declaration` reports."""
    try:
        return _CHECKS[kind](value)
    except PydanticCustomError:
        return None


def _unknown(table: Any, policy: Mapping[str, Any]) -> str:
    known = [str(name) for name in _mapping(policy.get("tables"))]
    near = difflib.get_close_matches(str(table), known, n=1, cutoff=0.6)
    hint = f"did you mean {near[0]}?" if near else f"expected one of {', '.join(known)}"
    return f"there is no such table; {hint}"


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
