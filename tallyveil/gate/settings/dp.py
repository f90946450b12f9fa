"""The settings of ours: what a statement may cost, how sure its intervals are, which noise."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Final

from tallyveil.gate.settings.values import Reading, number, one_of, switch, wrong
from tallyveil.mechanisms import BY_INVARIANTS, CALIBRATIONS, canonical_choice, mechanism_names
from tallyveil.policy import Defaults

__all__ = ["DESCRIPTIONS", "READINGS", "TARGETS", "defaults"]

DESCRIPTIONS: Final = MappingProxyType(
    {
        "dp.epsilon": "what a statement may cost, in epsilon per privacy unit",
        "dp.rho": "what a statement may cost, in rho per privacy unit, instead of dp.epsilon",
        "dp.half_width": "buy just enough for intervals of this half-width, instead of a cost",
        "dp.confidence": "the probability with which an interval holds the true value",
        "dp.coverage": "once: an interval holds at one look, chosen beforehand; always: at all",
        "dp.mechanism": "the noise: auto, auto(properties=…), "
        + ", ".join((*mechanism_names(), *BY_INVARIANTS)),
        "dp.delta": "the delta of Gaussian noise for dp.epsilon, where it is not the budget's",
        "dp.calibration": "how epsilon and delta become Gaussian noise: "
        + "; ".join(f"{name}, {how}" for name, how in CALIBRATIONS.items()),
        "dp.source": "auto: history where it suffices; history: never spend; fresh: always buy",
        "dp.nonnegative": "report no count below 0, and no end of an interval; rows still add up",
        "dp.notices": "say after each answer what it cost, how wide it is and what remains",
    }
)

# Of these one is set at a time.
TARGETS: Final = ("dp.epsilon", "dp.rho", "dp.half_width")

_LEAST: Final = Fraction(1, 10**9)


def defaults(given: Defaults) -> dict[str, str]:
    """The settings that the policy begins with."""
    return {
        "dp.epsilon": "" if given.epsilon is None else _decimal(given.epsilon),
        "dp.rho": "" if given.rho is None else _decimal(given.rho),
        "dp.half_width": "" if given.half_width is None else repr(given.half_width),
        "dp.confidence": repr(given.confidence),
        "dp.coverage": "once",
        "dp.mechanism": canonical_choice(given.mechanism),
        "dp.delta": "",
        "dp.calibration": "zcdp",
        "dp.source": "auto",
        "dp.nonnegative": "on" if given.nonnegative else "off",
        "dp.notices": "on",
    }


def _decimal(value: Fraction) -> str:
    return format(float(value), ".12g")


def _positive(name: str, value: str, now: str) -> str:
    if not 0 < number(name, value) < Fraction(10) ** 15:
        raise wrong(name, value, "It must be greater than 0 and less than 1e15.")
    return value


def _confidence(name: str, value: str, now: str) -> str:
    if not _LEAST < number(name, value) < 1 - _LEAST:
        raise wrong(
            name, value, "It lies between 0 and 1, not nearer than 1e-9 to either, such as 0.95."
        )
    return value


def _delta(name: str, value: str, now: str) -> str:
    if not 0 < number(name, value) < 1:
        raise wrong(
            name,
            value,
            "It lies between 0 and 1, and well below 1 over the number of units: 1e-6, say.",
        )
    return value


def _mechanism(name: str, value: str, now: str) -> str:
    return canonical_choice(value)


READINGS: Final[Mapping[str, Reading]] = MappingProxyType(
    {
        "dp.epsilon": _positive,
        "dp.rho": _positive,
        "dp.half_width": _positive,
        "dp.confidence": _confidence,
        "dp.coverage": one_of("once", "always"),
        "dp.mechanism": _mechanism,
        "dp.delta": _delta,
        "dp.calibration": one_of(*CALIBRATIONS),
        "dp.source": one_of("auto", "history", "fresh"),
        "dp.nonnegative": switch,
        "dp.notices": switch,
    }
)
