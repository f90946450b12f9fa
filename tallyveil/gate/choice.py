"""Which mechanism answers: the one that was asked for, or the one that serves best.

A table's mechanisms are those its policy allows and its budget can count. Under
``dp.mechanism = auto`` the one is taken

- of least variance, summed over the rows, for a cost in dp.epsilon or dp.rho;
- of least cost, for a target in dp.half_width;

and among equals the one registered first. Mechanisms of one law are equals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from tallyveil.accountant import Account
from tallyveil.errors import FeatureNotSupported, InvalidParameterValue, PolicyError, TallyveilError
from tallyveil.gate.settings import Target
from tallyveil.mechanisms import Measure, Mechanism, mechanism, mechanism_names
from tallyveil.policy import Policy, Table
from tallyveil.rewriter import Workload

__all__ = ["AUTO", "Choice", "Noise", "check_mechanisms"]

AUTO: Final = "auto"


@dataclass(frozen=True)
class Noise:
    """A mechanism and the scale of each column of a workload."""

    mechanism: Mechanism
    scales: tuple[float, ...]


def check_mechanisms(policy: Policy) -> None:
    """Raises PolicyError for names of mechanisms that are unknown or cannot serve their table."""
    mistakes = []
    if policy.defaults.mechanism != AUTO:
        mistakes += _unknown("defaults.mechanism", policy.defaults.mechanism)
    for name, table in policy.tables.items():
        key = f"tables.{name}.mechanisms"
        for spec in table.mechanisms or ():
            mistakes += _unknown(key, spec) or _unfit(key, mechanism(spec), _measure(table))
    if mistakes:
        count = "a mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
        where = "the policy" if policy.path is None else f"the policy {policy.path}"
        raise PolicyError(f"{where} has {count}", mistakes)


def _unknown(key: str, spec: str) -> list[str]:
    try:
        mechanism(spec)
    except TallyveilError:
        return [f'{key}: there is no mechanism "{spec}"; known: {", ".join(mechanism_names())}']
    return []


def _unfit(key: str, noise: Mechanism, measure: Measure) -> list[str]:
    reason = _reason(noise, measure)
    return [] if reason is None else [f"{key}: {noise.name} {reason}"]


def _measure(table: Table) -> Measure:
    return "epsilon" if table.budget.pure else "rho"


def _reason(noise: Mechanism, measure: Measure) -> str | None:
    """Why the mechanism cannot serve a table whose budget is in ``measure``."""
    if noise.needs.public_range:
        return "needs a public range of each count, and the policy declares none"
    if noise.needs.delta and measure == "epsilon":
        return "needs a delta, and the budget is of epsilon alone"
    return None


class Choice:
    """Chooses for the tables of one policy."""

    def __init__(self, policy: Policy, accounts: Mapping[str, Account]) -> None:
        self._accounts = accounts
        self._serving = {
            name: tuple(
                noise
                for noise in map(mechanism, table.mechanisms or mechanism_names())
                if _reason(noise, accounts[name].measure) is None
            )
            for name, table in policy.tables.items()
        }
        self._allowed = {name: table.mechanisms for name, table in policy.tables.items()}

    def noise(self, workload: Workload, target: Target, asked: str) -> Noise:
        """The mechanism ``asked`` for, or under "auto" the best, at the scales of the target.

        Raises FeatureNotSupported if it cannot serve, and InvalidParameterValue for a target that
        the table's budget cannot pay or the noise cannot meet.
        """
        if asked != AUTO:
            named = self._named(workload.table, asked, target)
            return Noise(named, self.scales(named, workload, target))
        found = [
            Noise(noise, self.scales(noise, workload, target))
            for noise in _distinct(self._serving[workload.table])
            if target.epsilon is None or not noise.needs.delta
        ]
        if not found:
            raise FeatureNotSupported(
                f'no mechanism of table "{workload.table}" answers at a cost in epsilon',
                hint="SET dp.rho or dp.half_width instead.",
            )
        if len(found) == 1:
            return found[0]
        return min(found, key=lambda noise: self._rank(noise, workload, target))

    def scales(self, noise: Mechanism, workload: Workload, target: Target) -> tuple[float, ...]:
        """The scales at which ``noise`` meets the target. Raises as `noise`."""
        account = self._accounts[workload.table]
        if target.rho is not None:
            if account.measure == "epsilon":
                raise InvalidParameterValue(
                    f'the budget of table "{workload.table}" is of epsilon, and dp.rho is set',
                    hint="SET dp.epsilon or dp.half_width instead.",
                )
            return noise.scales_for(workload, target.rho, account.relation, "rho")
        if target.epsilon is not None:
            return noise.scales_for(workload, target.epsilon, account.relation, "epsilon")
        movable = noise.scales_for(workload, Fraction(1), account.relation, account.measure)
        return tuple(
            noise.scale_for_half_width(
                math.floor((target.half_width or 0) / column.multiplier), target.confidence
            )
            if scale > 0
            else 0.0
            for column, scale in zip(workload.columns, movable, strict=True)
        )

    def _named(self, table: str, asked: str, target: Target) -> Mechanism:
        noise, measure = mechanism(asked), self._accounts[table].measure
        others = ", ".join(other.name for other in self._serving[table])
        allowed = self._allowed[table]
        reason = _reason(noise, measure)
        if allowed is not None and asked not in allowed:
            reason = "is not among the mechanisms of its policy"
        if reason is not None:
            raise FeatureNotSupported(
                f'{asked} cannot answer about table "{table}": it {reason}',
                hint=f"SET dp.mechanism to one of: {others}, or auto.",
            )
        if target.epsilon is not None and noise.needs.delta:
            raise FeatureNotSupported(
                f"{asked} has no cost in epsilon alone",
                hint=f"SET dp.rho = {float(target.epsilon**2 / 2):.6g} for about the same loss, or"
                " SET dp.mechanism = auto.",
            )
        return noise

    def _rank(self, noise: Noise, workload: Workload, target: Target) -> float:
        if target.half_width is None:
            return sum(
                column.height * float(column.multiplier) ** 2 * noise.mechanism.law(scale).variance
                for column, scale in zip(workload.columns, noise.scales, strict=True)
            )
        account = self._accounts[workload.table]
        loss = noise.mechanism.loss(workload, noise.scales, account.relation, account.measure)
        return float(loss.bound)


def _distinct(mechanisms: tuple[Mechanism, ...]) -> list[Mechanism]:
    """Without those whose law is an earlier one's."""
    found: list[Mechanism] = []
    for noise in mechanisms:
        if noise.law(1.0) not in [other.law(1.0) for other in found]:
            found.append(noise)
    return found
