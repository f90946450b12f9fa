"""A session's settings: the dp ones, and those PostgreSQL clients send when they connect."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from tallyveil.errors import InvalidParameterValue, UndefinedSetting
from tallyveil.mechanisms import (
    AUTO,
    CALIBRATIONS,
    StatementCalibration,
    canonical_choice,
    chart_of,
    family_of,
    mechanism_names,
)
from tallyveil.policy import Defaults

__all__ = ["DESCRIPTIONS", "SERVER_VERSION", "Settings", "Target"]

SERVER_VERSION: Final = "18.0"

Answers: TypeAlias = Literal["auto", "history", "fresh"]

DESCRIPTIONS: Final = MappingProxyType(
    {
        "dp.epsilon": "what a statement may cost, in epsilon per privacy unit",
        "dp.rho": "what a statement may cost, in rho per privacy unit, instead of dp.epsilon",
        "dp.half_width": "buy just enough for intervals of this half-width, instead of a cost",
        "dp.confidence": "the probability with which an interval holds the true value",
        "dp.mechanism": "the noise: auto, auto(properties=…), " + ", ".join(mechanism_names()),
        "dp.delta": "the delta of Gaussian noise for dp.epsilon, where it is not the budget's",
        "dp.calibration": "how epsilon and delta become Gaussian noise: "
        + "; ".join(f"{name}, {how}" for name, how in CALIBRATIONS.items()),
        "dp.source": "auto: history where it suffices; history: never spend; fresh: always buy",
        "dp.nonnegative": "raise negative counts, and negative ends of their intervals, to 0",
        "dp.notices": "say after each answer what it cost, how wide it is and what remains",
    }
)

_FIXED: Final = MappingProxyType(
    {
        "server_version": SERVER_VERSION,
        "server_version_num": "180000",
        "server_encoding": "UTF8",
        "integer_datetimes": "on",
        "is_superuser": "off",
        "in_hot_standby": "off",
        "max_identifier_length": "63",
        "transaction_isolation": "read committed",
        "lc_collate": "C",
        "lc_ctype": "C",
    }
)

_KEPT: Final = MappingProxyType(
    {
        "application_name": "",
        "client_encoding": "UTF8",
        "client_min_messages": "notice",
        "bytea_output": "hex",
        "datestyle": "ISO, MDY",
        "default_transaction_isolation": "read committed",
        "default_transaction_read_only": "on",
        "extra_float_digits": "1",
        "idle_in_transaction_session_timeout": "0",
        "idle_session_timeout": "0",
        "intervalstyle": "postgres",
        "jit": "off",
        "lock_timeout": "0",
        "row_security": "on",
        "search_path": '"$user", public',
        "standard_conforming_strings": "on",
        "statement_timeout": "0",
        "synchronize_seqscans": "on",
        "timezone": "UTC",
        "transaction_read_only": "on",
        "transaction_timeout": "0",
    }
)

_REPORTED: Final = MappingProxyType(
    {
        "application_name": "application_name",
        "client_encoding": "client_encoding",
        "datestyle": "DateStyle",
        "default_transaction_read_only": "default_transaction_read_only",
        "in_hot_standby": "in_hot_standby",
        "integer_datetimes": "integer_datetimes",
        "intervalstyle": "IntervalStyle",
        "is_superuser": "is_superuser",
        "search_path": "search_path",
        "server_encoding": "server_encoding",
        "server_version": "server_version",
        "standard_conforming_strings": "standard_conforming_strings",
        "timezone": "TimeZone",
    }
)

# Values other than these would make answers mean something else than the client thinks.
_ONLY: Final = MappingProxyType(
    {
        "client_encoding": ("utf8", "utf-8", "unicode"),
        "standard_conforming_strings": ("on", "true", "1", "yes"),
        "bytea_output": ("hex",),
    }
)

# Of these one is set at a time.
_TARGETS: Final = ("dp.epsilon", "dp.rho", "dp.half_width")

_NUMBER: Final = re.compile(r"[+-]?(\d{1,20}(\.\d{0,20})?|\.\d{1,20})([eE][+-]?\d{1,2})?")

_LEAST: Final = Fraction(1, 10**9)

_TRUE, _FALSE = ("on", "true", "1", "yes"), ("off", "false", "0", "no")


@dataclass(frozen=True)
class Target:
    """What an answer should cost or how wide its interval should be: one of the three is given.

    ``delta`` goes with epsilon where the noise needs one, None for the budget's own, and
    ``calibration`` says how the two become a scale.
    """

    epsilon: Fraction | None
    rho: Fraction | None
    half_width: Fraction | None
    confidence: Fraction
    delta: Fraction | None = None
    calibration: StatementCalibration = "zcdp"


class Settings:
    """Names are case-insensitive; values are text, as SHOW gives them."""

    def __init__(self, defaults: Defaults, user: str = "") -> None:
        self._defaults = defaults
        self._kept = dict(_KEPT)
        self._fixed = {**_FIXED, "session_authorization": user}
        self._dp: dict[str, str] = {}
        self._reset_dp()

    def _reset_dp(self) -> None:
        default = self._defaults
        self._dp = {
            "dp.epsilon": "" if default.epsilon is None else _decimal(default.epsilon),
            "dp.rho": "" if default.rho is None else _decimal(default.rho),
            "dp.half_width": "" if default.half_width is None else repr(default.half_width),
            "dp.confidence": repr(default.confidence),
            "dp.mechanism": _mechanism("dp.mechanism", default.mechanism),
            "dp.delta": "",
            "dp.calibration": "zcdp",
            "dp.source": "auto",
            "dp.nonnegative": "on" if default.nonnegative else "off",
            "dp.notices": "on",
        }

    @property
    def target(self) -> Target:
        epsilon, rho, half = (
            Fraction(self._dp[name]) if self._dp[name] else None for name in _TARGETS
        )
        delta = Fraction(self._dp["dp.delta"]) if self._dp["dp.delta"] else None
        calibration: StatementCalibration = self._dp["dp.calibration"]  # type: ignore[assignment]
        confidence = Fraction(self._dp["dp.confidence"])
        return Target(epsilon, rho, half, confidence, delta, calibration)

    @property
    def mechanism(self) -> str:
        return self._dp["dp.mechanism"]

    @property
    def shares(self) -> bool:
        """Whether answers may be summed up from finer ones.

        A target for the interval is one for every row; a cost leaves the choice to planning. The
        answers of a mechanism with a public range do not add up.
        """
        ranged = family_of(self.mechanism) is not None or (
            self.mechanism != AUTO and chart_of(self.mechanism) is not None
        )
        return self.target.half_width is None and not ranged

    @property
    def source(self) -> Answers:
        source: Answers = self._dp["dp.source"]  # type: ignore[assignment]
        return source

    @property
    def nonnegative(self) -> bool:
        """Whether what cannot be negative is not told as such."""
        return self._dp["dp.nonnegative"] == "on"

    @property
    def notices(self) -> bool:
        return self._dp["dp.notices"] == "on"

    def show(self, name: str) -> str:
        name = name.lower()
        for known in (self._dp, self._kept, self._fixed):
            if name in known:
                return known[name]
        raise _unknown(name)

    def all(self) -> dict[str, str]:
        return dict(sorted({**self._fixed, **self._kept, **self._dp}.items()))

    def set(self, name: str, value: str | None) -> None:
        """Set, or with None back to the default. What is refused changes nothing."""
        name = name.lower()
        if name.startswith("dp.") and name in self._dp:
            self._set_dp(name, value)
        elif name in self._kept:
            allowed = _ONLY.get(name)
            if value is not None and allowed and value.strip("'\"").lower() not in allowed:
                raise InvalidParameterValue(
                    f'invalid value for parameter "{name}": "{value}"',
                    hint=f"Only {allowed[0]} is offered.",
                )
            self._kept[name] = _KEPT[name] if value is None or allowed else value
        elif name in self._fixed:
            raise InvalidParameterValue(f'parameter "{name}" cannot be changed')
        else:
            raise _unknown(name)

    def _set_dp(self, name: str, value: str | None) -> None:
        if value is None:
            fresh = Settings(self._defaults)._dp
            if name in _TARGETS:
                self._dp |= {key: fresh[key] for key in _TARGETS}
            else:
                self._dp[name] = fresh[name]
            return
        self._dp[name] = _CHECKS[name](name, value.strip())
        if name in _TARGETS:
            self._dp |= {key: "" for key in _TARGETS if key != name}

    def reset_all(self) -> None:
        self._reset_dp()
        kept = {"client_encoding": self._kept["client_encoding"]}
        self._kept = {**_KEPT, **kept}

    def reportable(self) -> dict[str, str]:
        return {shown: self.show(name) for name, shown in _REPORTED.items()}


def _unknown(name: str) -> UndefinedSetting:
    hint = f"There are {', '.join(DESCRIPTIONS)}." if name.startswith("dp.") else None
    return UndefinedSetting(f'unrecognized configuration parameter "{name}"', hint=hint)


def _decimal(value: Fraction) -> str:
    return format(float(value), ".12g")


def _number(name: str, value: str) -> Fraction:
    # Read no further than a number goes: '1e999999999' would take minutes to become one.
    if not _NUMBER.fullmatch(value):
        raise InvalidParameterValue(
            f'invalid value for parameter "{name}": "{value[:40]}"',
            hint="Give a number, such as 0.1.",
        )
    return Fraction(value)


def _positive(name: str, value: str) -> str:
    number = _number(name, value)
    if not 0 < number < Fraction(10) ** 15:
        raise InvalidParameterValue(
            f'invalid value for parameter "{name}": "{value}"',
            hint="It must be greater than 0 and less than 1e15.",
        )
    return value


def _confidence(name: str, value: str) -> str:
    number = _number(name, value)
    if not _LEAST < number < 1 - _LEAST:
        raise InvalidParameterValue(
            f'invalid value for parameter "{name}": "{value}"',
            hint="It lies between 0 and 1, not nearer than 1e-9 to either, such as 0.95.",
        )
    return value


def _delta(name: str, value: str) -> str:
    number = _number(name, value)
    if not 0 < number < 1:
        raise InvalidParameterValue(
            f'invalid value for parameter "{name}": "{value}"',
            hint="It lies between 0 and 1, and well below 1 over the number of units: 1e-6, say.",
        )
    return value


def _one_of(*words: str) -> Callable[[str, str], str]:
    def check(name: str, value: str) -> str:
        if value.lower() not in words:
            raise InvalidParameterValue(
                f'invalid value for parameter "{name}": "{value}"',
                hint=f"Choose one of: {', '.join(words)}.",
            )
        return value.lower()

    return check


def _switch(name: str, value: str) -> str:
    word = value.lower()
    if word in _TRUE or word in _FALSE:
        return "on" if word in _TRUE else "off"
    raise InvalidParameterValue(
        f'invalid value for parameter "{name}": "{value}"', hint="Choose on or off."
    )


def _mechanism(name: str, value: str) -> str:
    return canonical_choice(value)


_CHECKS: Final[MappingProxyType[str, Callable[[str, str], str]]] = MappingProxyType(
    {
        "dp.epsilon": _positive,
        "dp.rho": _positive,
        "dp.half_width": _positive,
        "dp.confidence": _confidence,
        "dp.mechanism": _mechanism,
        "dp.delta": _delta,
        "dp.calibration": _one_of(*CALIBRATIONS),
        "dp.source": _one_of("auto", "history", "fresh"),
        "dp.nonnegative": _switch,
        "dp.notices": _switch,
    }
)
