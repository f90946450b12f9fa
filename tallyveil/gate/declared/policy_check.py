"""Checks whether a policy's mechanisms exist and can serve their tables, when it is opened, and
whether its views can be read, also without a source."""

from __future__ import annotations

from collections.abc import Callable

from tallyveil.errors import TallyveilError
from tallyveil.gate.deciding.alternatives import reason_against
from tallyveil.gate.declared.declaring import refuse
from tallyveil.gate.relations.relations import RELATIONS
from tallyveil.mechanisms import canonical, canonical_choice, family_of, mechanism
from tallyveil.policy import Policy, Table
from tallyveil.rewriter import Rewriter

__all__ = ["check_mechanisms", "check_views"]


def check_mechanisms(policy: Policy) -> None:
    """Raises PolicyError for names of mechanisms that are unknown or cannot serve their table."""
    mistakes = []
    mistakes += _unknown("defaults.mechanism", policy.defaults.mechanism, canonical_choice)
    for name, table in policy.tables.items():
        key = f"tables.{name}.mechanisms"
        for spec in table.mechanisms or ():
            mistakes += _unknown(key, spec) or _unfit(key, spec, table)
    refuse(policy, mistakes)


def check_views(policy: Policy) -> None:
    """Raises PolicyError for a view that no statement could use, whatever the tables hold."""
    domains = {name: table.cells for name, table in policy.tables.items()}
    public: dict[str, dict[str, str]] = {name: {} for name in policy.public}
    Rewriter(domains, RELATIONS, public, policy.view_sql, policy.keys)


def _unknown(key: str, spec: str, understand: Callable[[str], object] = canonical) -> list[str]:
    try:
        understand(spec)
    except TallyveilError as error:
        return [f"{key}: {error.message}" + (f"; {error.hint}" if error.hint else "")]
    return []


def _unfit(key: str, spec: str, table: Table) -> list[str]:
    if family_of(canonical(spec)) is not None:
        if table.inference_control is None:
            return []
        return [
            f"{key}: {spec} is a mechanism with a public range, whose answers' precision is not"
            " known beforehand; inference_control needs additive noise"
        ]
    reason = reason_against(mechanism(spec), "epsilon" if table.budget.pure else "rho")
    return [] if reason is None else [f"{key}: {spec} {reason}"]
