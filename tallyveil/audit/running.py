"""The audits by name, and running them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import Final, TypeAlias

from tallyveil.audit.finding import Finding
from tallyveil.audit.matrices import matrix_findings
from tallyveil.audit.noise import noise_findings
from tallyveil.audit.records import audit_name, record_findings
from tallyveil.errors import InvalidParameterValue
from tallyveil.mechanisms import additive
from tallyveil.mechanisms.matrix.named import NAMED, named
from tallyveil.mechanisms.records import RECORD_LAWS
from tallyveil.mechanisms.units import positive

__all__ = ["audit", "audits"]

# Yields a mechanism's findings at an ε, from this number of draws on each input.
Audit: TypeAlias = Callable[[Fraction, int], Iterator[Finding]]

MIN_DRAWS: Final = 1000
MAX_DRAWS: Final = 10_000_000
_LEAST, _MOST = Fraction(1, 1000), Fraction(20)


def audits() -> dict[str, Audit]:
    """Return the audit of every mechanism, by name: registered noise, matrices by their names, and
    mechanisms for one record."""
    return {
        **{family.name: partial(noise_findings, family) for family in additive()},
        **{family.name: partial(matrix_findings, family) for family in NAMED.values()},
        **{audit_name(kind): partial(record_findings, kind) for kind in RECORD_LAWS.values()},
    }


def audit(
    names: Sequence[str], epsilons: Sequence[Fraction | float | str], draws: int
) -> Iterator[Finding]:
    """Yield the findings on the mechanisms called ``names``, by default all, at each ε.

    A correct mechanism fails a check on draws with a probability of at most 10⁻⁹ per check.

    Raises InvalidParameterValue for an unknown name, no ε or one out of range, and draws out of
    range, before anything is drawn.
    """
    known = audits()
    asked = [_known(name, known) for name in names]
    if not MIN_DRAWS <= draws <= MAX_DRAWS:
        raise InvalidParameterValue(
            f"the number of draws must be from {MIN_DRAWS} to {MAX_DRAWS}, not {draws}"
        )
    if not epsilons:
        raise InvalidParameterValue("an audit needs at least one epsilon")
    checked = [_epsilon(epsilon) for epsilon in epsilons]
    return (
        finding
        for name in asked or known
        for epsilon in checked
        for finding in known[name](epsilon, draws)
    )


def _known(name: str, known: Collection[str]) -> str:
    """Return the audit's name for ``name``, which may be a name in SQL, and in any case.

    Raises InvalidParameterValue for an unknown one.
    """
    if name.lower() in known:
        return name.lower()
    try:
        return named(name).name
    except InvalidParameterValue:
        raise InvalidParameterValue(
            f'there is no mechanism "{name}" to audit', hint=f"Known: {', '.join(known)}."
        ) from None


def _epsilon(epsilon: Fraction | float | str) -> Fraction:
    """Return ε exactly. Raises InvalidParameterValue unless 0.001 ≤ ε ≤ 20: beyond, draws show
    nothing."""
    exact = positive(epsilon, "epsilon")
    if not _LEAST <= exact <= _MOST:
        raise InvalidParameterValue(f"epsilon must be from 0.001 to 20, not {epsilon}")
    return exact
