"""The dp settings: a statement's cost, the confidence of its intervals, its noise."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Final

from tallyveil.gate.settings.as_of import read_as_of
from tallyveil.gate.settings.values import Setting, between, one_of, switch
from tallyveil.mechanisms import BY_INVARIANTS, canonical_choice, mechanism_names
from tallyveil.mechanisms.noise.statement_scales import CALIBRATIONS
from tallyveil.policy import Defaults

__all__ = ["DESCRIPTIONS", "SETTINGS", "TARGETS", "defaults"]

# Only one of these is set at a time.
TARGETS: Final = ("dp.epsilon", "dp.rho", "dp.half_width")

_LEAST: Final = Fraction(1, 10**9)


def defaults(given: Defaults) -> dict[str, str]:
    """The default of each setting under a policy."""
    return {name: setting.default for name, setting in SETTINGS.items()} | {
        "dp.epsilon": "" if given.epsilon is None else _decimal(given.epsilon),
        "dp.rho": "" if given.rho is None else _decimal(given.rho),
        "dp.half_width": "" if given.half_width is None else repr(given.half_width),
        "dp.confidence": repr(given.confidence),
        "dp.mechanism": canonical_choice(given.mechanism),
        "dp.nonnegative": "on" if given.nonnegative else "off",
    }


def _decimal(value: Fraction) -> str:
    return format(float(value), ".12g")


_positive: Final = between(0, 10**15, "It must be greater than 0 and less than 1e15.")
_confidence: Final = between(
    _LEAST, 1 - _LEAST, "It must be between 0 and 1, more than 1e-9 from either, such as 0.95."
)
_delta: Final = between(
    0, 1, "It must be between 0 and 1, and well below 1 over the number of units, such as 1e-6."
)


SETTINGS: Final[Mapping[str, Setting]] = MappingProxyType(
    {
        "dp.epsilon": Setting(
            "", _positive, "what a statement may cost, in epsilon per privacy unit"),
        "dp.rho": Setting(
            "", _positive,
            "what a statement may cost, in rho per privacy unit, instead of dp.epsilon"),
        "dp.half_width": Setting(
            "", _positive, "buy just enough for intervals of this half-width, instead of a cost"),
        "dp.confidence": Setting(
            "", _confidence, "the probability with which an interval holds the true value"),
        "dp.coverage": Setting(
            "once", one_of("once", "always"),
            "once: an interval holds at one look, chosen beforehand; always: at all looks"),
        "dp.simultaneous": Setting(
            "off", switch, "all intervals of a result hold together, not only each by itself"),
        "dp.mechanism": Setting(
            "", lambda name, value, now: canonical_choice(value),
            "the noise: auto, auto(properties=…), "
            + ", ".join((*mechanism_names(), *BY_INVARIANTS))),
        "dp.delta": Setting(
            "", _delta, "the delta of Gaussian noise for dp.epsilon, where it is not the budget's"),
        "dp.calibration": Setting(
            "zcdp", one_of(*CALIBRATIONS), "how epsilon and delta become Gaussian noise: "
            + "; ".join(f"{name}, {how}" for name, how in CALIBRATIONS.items())),
        "dp.objective": Setting(
            "auto", one_of("auto", "total", "worst", "relative"),
            "what error is made least: auto, the total without a row worse than asked directly;"
            " total, whatever the rows get; worst, that of the worst row; relative, the total with"
            " each row's error divided by its share of the declared values"),
        "dp.strategy": Setting(
            "auto", one_of("auto", "direct", "parts", "groupings", "ordered"),
            "which rows are bought: auto, those of least error; direct, those asked; or the ones"
            " that a strategy chooses, where they have less error"),
        "dp.as_of": Setting(
            "", read_as_of, "a day: the last one to count of tables that grow; or a moment in UTC,"
            " or now: by what was known then alone; or a version of tables whose rows are"
            " replaced"),
        "dp.source": Setting(
            "auto", one_of("auto", "history", "fresh"),
            "auto: history where it suffices; history: never spend; fresh: always buy"),
        "dp.nonnegative": Setting(
            "", switch, "report no count and no end of an interval below 0; rows still add up"),
        "dp.minimum_count": Setting(
            "", _positive,
            "report counts below this as NULL, and the other aggregates beside them"),
        "dp.extremes": Setting(
            "off", switch,
            "answer min and max of several values as quantiles of rank 0.01 and 0.99, and bool_or"
            " and bool_and by the interval of a count"),
        "dp.notices": Setting(
            "on", switch, "report with each answer its cost, its interval and what remains"),
    }
)  # fmt: skip
"""`defaults` has a policy's defaults in addition."""

DESCRIPTIONS: Final = MappingProxyType({name: one.description for name, one in SETTINGS.items()})
