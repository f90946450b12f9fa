"""Analysts' shares of the tables' budgets, and the contradictions between them.

A share uses its table's unit: epsilon if the table's budget has epsilon, rho if it has rho. δ is
the table's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from pydantic_core import PydanticCustomError

from tallyveil.policy import checks
from tallyveil.policy.conflicts import one_given, table_of, tables_of
from tallyveil.policy.declaration import AnalystDeclaration
from tallyveil.policy.mistakes import dotted, nearest, written
from tallyveil.policy.model import Budget, Table

__all__ = ["share_conflicts", "shares"]

_CHECKS = MappingProxyType({"epsilon": checks.epsilon, "rho": checks.rho, "delta": checks.delta})


def shares(
    declared: Mapping[str, AnalystDeclaration], tables: Mapping[str, Table]
) -> dict[str, Mapping[str, Budget]]:
    """Return each analyst's shares by table. A share of one table overrides a share of all."""
    found: dict[str, Mapping[str, Budget]] = {}
    for name, analyst in declared.items():
        own: dict[str, Budget] = {}
        for table in tables.values():
            share = analyst.tables.get(table.name)
            amount = analyst.budget if share is None else share.budget
            if amount is not None:
                own[table.name] = amount.model_copy(update={"delta": table.budget.delta})
        found[name] = MappingProxyType(own)
    return found


def share_conflicts(policy: Mapping[str, Any]) -> Iterator[str]:
    """Yield one message per contradiction between shares, or between a share and a budget."""
    budgets = {
        name: table["budget"]
        for name, table in tables_of(policy, "tables")
        if isinstance(table.get("budget"), Mapping)
    }
    for name, analyst in tables_of(policy, "analysts"):
        key, own = dotted(("analysts", name)), table_of(analyst, "tables")
        if analyst.get("budget") is None and "tables" not in analyst:
            yield f"{key}: budget missing; expected a share such as budget = {{ epsilon = 1.0 }}"
        for table in own:
            here, known = f"{key}.{dotted(('tables', table))}", table_of(policy, "tables")
            if table not in known:
                yield f"{here}: there is no such table; {nearest(table, known)}"
            else:
                whole = {table: budgets[table]} if table in budgets else {}
                yield from _share_conflicts(f"{here}.budget", table_of(own, table), whole)
        rest = {table: budget for table, budget in budgets.items() if table not in own}
        yield from _share_conflicts(f"{key}.budget", analyst, rest)


def _share_conflicts(
    key: str, declared: Mapping[str, Any], budgets: Mapping[str, Mapping[str, Any]]
) -> Iterator[str]:
    share = declared.get("budget")
    if not isinstance(share, Mapping):
        return
    amount, found = one_given(share, "epsilon", "rho")
    if amount is None:
        yield f"{key}: {found}, epsilon and rho; expected the unit of its table's budget"
        return
    for table, budget in budgets.items():
        kind, _ = one_given(budget, "epsilon", "rho")
        if kind is not None:
            yield from _against(key, share, amount, table, budget, kind)


def _against(
    key: str, share: Mapping[str, Any], given: str, table: str, budget: Mapping[str, Any], kind: str
) -> Iterator[str]:
    owner = dotted(("tables", table, "budget"))
    if given != kind:
        yield (
            f"{key}.{given} = {written(share[given])}: expected {kind}, as in {owner}; "
            "if tables' budgets differ in kind, give the shares table by table"
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
                f"{key}.delta = {written(share['delta'])}: expected no delta: "
                f"a share uses the delta of {owner}"
            )


def _amount(kind: str, value: Any) -> Fraction | None:
    """Return the amount, or None if it is invalid, which `declaration` reports."""
    try:
        return _CHECKS[kind](value)
    except PydanticCustomError:
        return None
