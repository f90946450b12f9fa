"""Which mechanisms a table allows, and what to write instead where one cannot serve: the ends of
refusals, and their hints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tallyveil.accountant import Account
from tallyveil.errors import FeatureNotSupported
from tallyveil.gate.settings import Target
from tallyveil.mechanisms import (
    AnyMechanism,
    CountMechanism,
    Measure,
    Mechanism,
    canonical,
    family_of,
    lacks_range,
    mechanism,
    mechanism_names,
    with_range,
)
from tallyveil.policy import Table
from tallyveil.rewriter import Workload

__all__ = ["Alternatives", "allowed", "completed", "reason_against", "unfit", "without_range"]

# Of the mechanisms with a public range, what "auto" considers of itself.
_FLOWCHART: Final = "truncated_geometric"

_NONE_FIT: Final = "None of those its policy allows does; ask for plain counts."


def reason_against(noise: Mechanism, measure: Measure) -> str | None:
    """Why the mechanism cannot serve a table whose budget is in ``measure``."""
    if noise.needs_delta and measure == "epsilon":
        return "needs a delta, and the budget is of epsilon alone"
    return None


def unfit(noise: Mechanism, workload: Workload, additive: bool) -> str | None:
    """Why it does not answer ``workload``, as `Mechanism.unfit`; ``additive``: to be added up."""
    if noise.needs_range and additive:
        return "answers apart, and its answers cannot be added up"
    return noise.unfit(workload)


@dataclass(frozen=True, eq=False)
class Alternatives:
    """Of the tables of one policy; ``allowed`` are the mechanisms it names, None for all."""

    accounts: Mapping[str, Account]
    allowed: Mapping[str, tuple[str, ...] | None]

    def considered(self, table: str) -> tuple[str, ...]:
        """What "auto" chooses from, unless it cannot serve."""
        return self.allowed[table] or (*_additive(), _FLOWCHART)

    def allows(self, table: str, asked: str, noise: AnyMechanism | None) -> bool:
        """Whether it, or it with any n, or all of its family are allowed."""
        names = {asked, family_of(asked)}
        if noise is not None:
            names.add(noise.name)
        if isinstance(noise, CountMechanism):
            names.add(noise.kind)
        allowed = self.allowed[table]
        return allowed is None or not names.isdisjoint(allowed)

    def refusal(
        self,
        asked: str,
        reason: str,
        workload: Workload,
        additive: bool,
        named: str | None = None,
    ) -> FeatureNotSupported:
        """``named`` is what the analyst wrote, where ``asked`` is only its noise."""
        it = "it" if named is None else f"its noise is {asked}, which"
        return FeatureNotSupported(
            f'{named or asked} cannot answer this about table "{workload.table}": {it} {reason}',
            hint=self.others(workload, additive),
        )

    def others(self, workload: Workload, additive: bool) -> str:
        """A hint that says which mechanisms can serve."""
        names = [completed(spec) for spec in self._fit(workload, additive)]
        if not names:
            return _NONE_FIT
        return f"SET dp.mechanism to one of: {', '.join(names)}, or auto."

    def _fit(self, workload: Workload, additive: bool) -> list[str]:
        """Those of the table that can answer it at some cost, if n is given where it is needed."""
        measure, fit = self.accounts[workload.table].measure, []
        for spec in self.allowed[workload.table] or mechanism_names():
            # Whether it serves does not depend on n.
            noise = with_range(spec, 1) if lacks_range(spec) else mechanism(spec)
            if not (reason_against(noise, measure) or unfit(noise, workload, additive)):
                fit.append(spec)
        return fit

    def instead_of_auto(self, workload: Workload, target: Target, additive: bool) -> str:
        """A hint for a table of whose mechanisms "auto" can take none."""
        fit = self._fit(workload, additive=False)
        if not fit:
            return _NONE_FIT
        ranged = all(family_of(spec) is not None for spec in fit)
        if ranged and target.half_width is not None:
            return "SET dp.epsilon instead: those its policy allows have no width in common."
        one = f"SET dp.mechanism to one of: {', '.join(map(completed, fit))}"
        if ranged and additive:
            return (
                "Those its policy allows have answers that do not add up. Ask for the groups of"
                f" one grouping set, or {one}: then each grouping set is asked by itself."
            )
        if ranged:
            return f"{one}, with a bound that you know of."
        return f"{one}." if target.epsilon is None else f"SET dp.rho instead, or {one}."


def allowed(table: Table) -> tuple[str, ...] | None:
    """Those the policy allows, None for all. How precise an answer of a mechanism with a public
    range is depends on the answer, so inference control allows none of these."""
    if table.mechanisms is not None:
        return tuple(map(canonical, table.mechanisms))
    return None if table.inference_control is None else _additive()


def _additive() -> tuple[str, ...]:
    return tuple(name for name in mechanism_names() if family_of(name) is None)


def without_range(asked: str, written: str, table: str) -> FeatureNotSupported:
    return FeatureNotSupported(
        f"{asked} needs a public range 0..n of every count asked for, and the policy"
        f' declares none for these of table "{table}"',
        hint=f"SET dp.mechanism = {written}, with a bound you know of, or auto.",
    )


def completed(spec: str) -> str:
    """As it is written in SET, with an n to fill in if it has none."""
    if family_of(spec) is None:
        return spec
    if not lacks_range(spec):
        return f"'{spec}'"
    family, opened, rest = spec.partition("(")
    return f"'{family}(n=…, {rest}'" if opened else f"'{family}(n=…)'"
