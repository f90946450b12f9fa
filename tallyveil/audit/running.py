"""Which audits there are, by name, and running some of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import Final, TypeAlias

from tallyveil.audit.finding import Finding
from tallyveil.audit.matrices import matrix_findings
from tallyveil.audit.noise import noise_findings, staircase_findings
from tallyveil.audit.records import (
    laplace_findings,
    response_findings,
    series_findings,
    set_findings,
)
from tallyveil.errors import InvalidParameterValue
from tallyveil.mechanisms import additive
from tallyveil.mechanisms.matrix.named import NAMED, named
from tallyveil.mechanisms.units import positive

__all__ = ["audit", "audits"]

# Its findings at an ε, from so many draws on each input.
Audit: TypeAlias = Callable[[Fraction, int], Iterator[Finding]]

MIN_DRAWS: Final = 1000
MAX_DRAWS: Final = 10_000_000
_LEAST, _MOST = Fraction(1, 1000), Fraction(20)


def audits() -> dict[str, Audit]:
    """Every mechanism that can be audited: all registered noise, and what is not registered.

    Those with a public range have matrices, which are proved under the matrix's name.
    """
    return {
        **{family.name: partial(noise_findings, family) for family in additive()},
        "staircase": staircase_findings,
        **{family.name: partial(matrix_findings, family) for family in NAMED.values()},
        "randomised-response": response_findings,
        "set-response": set_findings,
        "clamped-laplace": laplace_findings,
        "series-noise": series_findings,
    }


def audit(
    names: Sequence[str], epsilons: Sequence[Fraction | float | str], draws: int
) -> Iterator[Finding]:
    """The findings on the mechanisms called ``names``, or on all, at each ε, as they come.

    A correct mechanism fails one of its checks on draws with a chance of at most 10⁻⁹ each.

    Raises InvalidParameterValue for an unknown name, no ε, and draws out of range; before anything
    is drawn.
    """
    known = audits()
    asked = [_known(name, known) for name in names]
    if not MIN_DRAWS <= draws <= MAX_DRAWS:
        raise InvalidParameterValue(f"draws are from {MIN_DRAWS} to {MAX_DRAWS}, not {draws}")
    if not epsilons:
        raise InvalidParameterValue("an audit needs an epsilon")
    checked = [_epsilon(epsilon) for epsilon in epsilons]
    return (
        finding
        for name in asked or known
        for epsilon in checked
        for finding in known[name](epsilon, draws)
    )


def _known(name: str, known: Collection[str]) -> str:
    """What ``name`` is called here; names of SQL and any case are understood."""
    if name.lower() in known:
        return name.lower()
    try:
        return named(name).name
    except InvalidParameterValue:
        raise InvalidParameterValue(
            f'there is no mechanism "{name}" to audit', hint=f"Known: {', '.join(known)}."
        ) from None


def _epsilon(epsilon: Fraction | float | str) -> Fraction:
    """Raises InvalidParameterValue unless 0.001 ≤ ε ≤ 20: outside, draws show nothing."""
    exact = positive(epsilon, "epsilon")
    if not _LEAST <= exact <= _MOST:
        raise InvalidParameterValue(f"an audit takes an epsilon from 0.001 to 20, not {epsilon}")
    return exact
