"""The settings of one session, and of its transaction block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final, Literal, TypeAlias, cast

from tallyveil.errors import InvalidParameterValue, UndefinedSetting
from tallyveil.gate.settings import dp
from tallyveil.gate.settings.dp import DESCRIPTIONS, TARGETS
from tallyveil.gate.settings.postgres import FIXED, KEPT, REPORTED
from tallyveil.gate.settings.values import is_heard, milliseconds
from tallyveil.mechanisms import AUTO, StatementCalibration, chart_of, family_of
from tallyveil.policy import Defaults

__all__ = ["Answers", "Settings", "Target"]

Answers: TypeAlias = Literal["auto", "history", "fresh"]

# What a transaction block has of its own; outside of one, what the next one will begin with.
_BLOCK: Final = ("transaction_deferrable", "transaction_isolation", "transaction_read_only")


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
        self._defaults = dp.defaults(defaults)
        self._dp = dict(self._defaults)
        self._kept = {name: setting.default for name, setting in KEPT.items()}
        self._fixed = {**FIXED, "session_authorization": user}
        self._block: dict[str, str] | None = None

    @property
    def target(self) -> Target:
        epsilon, rho, half = (
            _exact(self._dp[name]) if self._dp[name] else None for name in TARGETS
        )
        delta = _exact(self._dp["dp.delta"]) if self._dp["dp.delta"] else None
        calibration = cast(StatementCalibration, self._dp["dp.calibration"])
        confidence = _exact(self._dp["dp.confidence"])
        return Target(epsilon, rho, half, confidence, delta, calibration)

    @property
    def mechanism(self) -> str:
        return self._dp["dp.mechanism"]

    @property
    def shares(self) -> bool:
        """Whether answers may be summed up from finer ones.

        A target for the interval is one for every row, and so is an interval over all looks; a
        cost leaves the choice to planning. The answers of a mechanism with a public range do not
        add up.
        """
        return self.target.half_width is None and not self.ranged and not self.all_looks

    @property
    def ranged(self) -> bool:
        """Whether the mechanism set is one with a public range."""
        return family_of(self.mechanism) is not None or (
            self.mechanism != AUTO and chart_of(self.mechanism) is not None
        )

    @property
    def all_looks(self) -> bool:
        """Whether intervals are to hold at all looks together, not at one."""
        return self._dp["dp.coverage"] == "always"

    @property
    def source(self) -> Answers:
        return cast(Answers, self._dp["dp.source"])

    @property
    def nonnegative(self) -> bool:
        """Whether what cannot be negative is not told as such."""
        return self._dp["dp.nonnegative"] == "on"

    @property
    def notices(self) -> bool:
        return self._dp["dp.notices"] == "on"

    @property
    def statement_timeout(self) -> float:
        """Seconds that a statement may take, infinity for no limit of the session's own."""
        limit = milliseconds(self._kept["statement_timeout"])
        return limit / 1000 if limit else float("inf")

    @property
    def time_zone(self) -> str:
        return self._kept["timezone"]

    def hears(self, severity: str) -> bool:
        """Whether messages of this severity are sent to the client."""
        return is_heard(severity, self._kept["client_min_messages"])

    def show(self, name: str) -> str:
        name = name.lower()
        found = self._all().get(name)
        if found is None:
            raise _unknown(name)
        return found

    def all(self) -> dict[str, str]:
        return dict(sorted(self._all().items()))

    def values(self) -> tuple[str, ...]:
        """Of all settings, in an order that never changes."""
        return tuple(self._all().values())

    def _all(self) -> dict[str, str]:
        return {**self._fixed, **self._kept, **self._dp, **(self._block or self._next_block())}

    def set(self, name: str, value: str | None) -> None:
        """Set, or with None back to the default. What is refused changes nothing."""
        name = name.lower()
        if name in self._dp:
            self._set_dp(name, value)
        elif name in KEPT:
            setting, now = KEPT[name], self._kept[name]
            self._kept[name] = setting.default if value is None else setting.read(name, value, now)
        elif name in _BLOCK:
            self.set_block({name: value})
        elif name in self._fixed:
            raise InvalidParameterValue(f'parameter "{name}" cannot be changed')
        else:
            raise _unknown(name)

    def _set_dp(self, name: str, value: str | None) -> None:
        if value is None:
            names = TARGETS if name in TARGETS else (name,)
            self._dp |= {key: self._defaults[key] for key in names}
            return
        self._dp[name] = dp.READINGS[name](name, value.strip(), self._dp[name])
        if name in TARGETS:
            self._dp |= {key: "" for key in TARGETS if key != name}

    # The transaction block

    def _next_block(self) -> dict[str, str]:
        return {name: self._kept[f"default_{name}"] for name in _BLOCK}

    def begin(self, modes: Mapping[str, str | None]) -> None:
        """A block begins, unless there is one, which then takes the modes."""
        if self._block is None:
            self._block = self._next_block()
        self.set_block(modes)

    def set_block(self, modes: Mapping[str, str | None]) -> bool:
        """Modes of the block; without one, they end with the statement, and False is said."""
        begun = self._next_block()
        read = {
            name: begun[name]
            if value is None
            else KEPT[f"default_{name}"].read(name, value, begun[name])
            for name, value in modes.items()
        }
        if self._block is not None:
            self._block |= read
        return self._block is not None

    def end(self) -> None:
        """The block is over."""
        self._block = None

    def reset_all(self) -> None:
        self._dp = dict(self._defaults)
        kept = {name: setting.default for name, setting in KEPT.items()}
        self._kept = {**kept, "client_encoding": self._kept["client_encoding"]}

    def reportable(self) -> dict[str, str]:
        return {shown: self.show(name) for name, shown in REPORTED.items()}


def _unknown(name: str) -> UndefinedSetting:
    hint = f"There are {', '.join(DESCRIPTIONS)}." if name.startswith("dp.") else None
    return UndefinedSetting(f'unrecognized configuration parameter "{name}"', hint=hint)


@lru_cache(maxsize=256)
def _exact(shown: str) -> Fraction:
    return Fraction(shown)
