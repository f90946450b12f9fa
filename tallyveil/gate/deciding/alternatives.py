"""Which mechanisms a table allows, and refusals of those that cannot serve, with hints."""

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

_NONE_FIT: Final = "None of the mechanisms that its policy allows can; ask for plain counts."


def reason_against(noise: Mechanism, measure: Measure) -> str | None:
    """Why the mechanism cannot serve a table whose budget is in ``measure``; None if it can."""
    if noise.needs_delta and measure == "epsilon":
        return "needs a delta, but the budget is of epsilon alone"
    return None


def unfit(noise: Mechanism, workload: Workload, additive: bool) -> str | None:
    """Why it cannot answer ``workload``, as `Mechanism.unfit`; ``additive`` noise may be needed."""
    if noise.needs_range and additive:
        return "gives answers that cannot be added up"
    return noise.unfit(workload)


@dataclass(frozen=True, eq=False)
class Alternatives:
    """The mechanisms of one policy's tables: ``allowed`` are those it names, None for all."""

    accounts: Mapping[str, Account]
    allowed: Mapping[str, tuple[str, ...] | None]

    def considered(self, table: str) -> tuple[str, ...]:
        """What "auto" chooses from, if it can serve: its answers are unbiased."""
        names = self.allowed[table] or mechanism_names()
        return tuple(name for name in names if family_of(name) is None)

    def allows(self, table: str, asked: str, noise: AnyMechanism | None) -> bool:
        """Whether the mechanism is allowed: itself, with any n, or all of its family."""
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
        """``named``: what the analyst wrote, if ``asked`` is only its noise."""
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
        """The table's mechanisms that can answer it at some cost, with an n if they need one."""
        measure, fit = self.accounts[workload.table].measure, []
        for spec in self.allowed[workload.table] or mechanism_names():
            # Whether it serves does not depend on n.
            noise = with_range(spec, 1) if lacks_range(spec) else mechanism(spec)
            if not (reason_against(noise, measure) or unfit(noise, workload, additive)):
                fit.append(spec)
        return fit

    def instead_of_auto(self, workload: Workload, target: Target) -> str:
        """A hint for a table if "auto" can choose none of its mechanisms."""
        fit = self._fit(workload, additive=False)
        if not fit:
            return _NONE_FIT
        one = f"SET dp.mechanism to one of: {', '.join(map(completed, fit))}"
        if all(family_of(spec) is not None for spec in fit):
            cost = "" if target.half_width is None else ", and SET dp.epsilon"
            return (
                "auto takes unbiased noise, and those that its policy allows have a public range."
                f" {one}{cost}; n is an upper bound that you know."
            )
        return f"{one}." if target.epsilon is None else f"SET dp.rho instead, or {one}."


def allowed(table: Table) -> tuple[str, ...] | None:
    """The mechanisms that the policy allows, None for all. Inference control allows none with a
    public range, since the precision of its answers depends on the answers."""
    if table.mechanisms is not None:
        return tuple(map(canonical, table.mechanisms))
    return None if table.inference_control is None else _additive()


def _additive() -> tuple[str, ...]:
    return tuple(name for name in mechanism_names() if family_of(name) is None)


def without_range(asked: str, written: str, table: str) -> FeatureNotSupported:
    return FeatureNotSupported(
        f"{asked} needs a public range 0..n of every count asked for, but the policy"
        f' declares none for these counts of table "{table}"',
        hint=f"SET dp.mechanism = {written}, where n is an upper bound that you know, or auto.",
    )


def completed(spec: str) -> str:
    """The mechanism as SET takes it, with an n to fill in if ``spec`` has none."""
    if family_of(spec) is None:
        return spec
    if not lacks_range(spec):
        return f"'{spec}'"
    family, opened, rest = spec.partition("(")
    return f"'{family}(n=…, {rest}'" if opened else f"'{family}(n=…)'"
