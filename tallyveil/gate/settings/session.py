"""The settings of one session, and of its transaction block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Final, Literal, TypeAlias, cast

from tallyveil.errors import InvalidParameterValue, UndefinedSetting
from tallyveil.gate.interface import Notice
from tallyveil.gate.settings import dp
from tallyveil.gate.settings.as_of import AsOf
from tallyveil.gate.settings.dp import DESCRIPTIONS, TARGETS
from tallyveil.gate.settings.parameters import WITHOUT_EFFECT
from tallyveil.gate.settings.postgres import FIXED, KEPT, REPORTED, SERVER_VERSION
from tallyveil.gate.settings.values import SEVERITIES, milliseconds
from tallyveil.mechanisms import AUTO, StatementCalibration, chart_of, family_of
from tallyveil.policy import Defaults

__all__ = ["Answers", "Objective", "Settings", "Target"]

Answers: TypeAlias = Literal["auto", "history", "fresh"]
Objective: TypeAlias = Literal["auto", "total", "worst", "relative"]

# The modes of a transaction block; outside of one, those that the next will begin with.
_BLOCK: Final = ("transaction_deferrable", "transaction_isolation", "transaction_read_only")


_KEPT_DEFAULTS: Final = {name: setting.default for name, setting in KEPT.items()}


@dataclass(frozen=True)
class Target:
    """What an answer should cost or how wide its interval should be: one of the three is given.

    ``delta`` goes with epsilon if the noise needs one; None means the budget's. ``calibration`` is
    how the two become a scale.
    """

    epsilon: Fraction | None
    rho: Fraction | None
    half_width: Fraction | None
    confidence: Fraction
    delta: Fraction | None = None
    calibration: StatementCalibration = "zcdp"


class Settings:
    """Names are case-insensitive; values are text, as SHOW gives them.

    They belong to the session, but a rollback undoes what its transaction set, and what is set for
    the transaction alone ends with it.
    """

    def __init__(self, defaults: Defaults, user: str = "", version: str = SERVER_VERSION) -> None:
        self._defaults = {**_KEPT_DEFAULTS, **dp.defaults(defaults)}
        major, minor = map(int, version.split("."))
        versions = {"server_version": version, "server_version_num": str(10_000 * major + minor)}
        self._fixed = {**FIXED, **versions, "session_authorization": user}
        self.restore(_State(self._defaults, {}, None))

    @property
    def target(self) -> Target:
        epsilon, rho, half = (
            _exact(self._now[name]) if self._now[name] else None for name in TARGETS
        )
        delta = _exact(self._now["dp.delta"]) if self._now["dp.delta"] else None
        calibration = cast(StatementCalibration, self._now["dp.calibration"])
        confidence = _exact(self._now["dp.confidence"])
        return Target(epsilon, rho, half, confidence, delta, calibration)

    @property
    def mechanism(self) -> str:
        return self._now["dp.mechanism"]

    @property
    def shares(self) -> bool:
        """Whether answers may be summed up from finer ones.

        A half-width is a target for every row, and so is an interval over all looks; a cost leaves
        the choice to planning. The answers of a mechanism with a public range do not add up.
        """
        return self.target.half_width is None and not self.ranged and not self.all_looks

    @property
    def ranged(self) -> bool:
        """Whether dp.mechanism is set to one with a public range."""
        return family_of(self.mechanism) is not None or (
            self.mechanism != AUTO and chart_of(self.mechanism) is not None
        )

    @property
    def all_looks(self) -> bool:
        """Whether intervals must hold over all looks together, not at one."""
        return self._now["dp.coverage"] == "always"

    @property
    def objective(self) -> Objective:
        return cast(Objective, self._now["dp.objective"])

    @property
    def strategy(self) -> str:
        return self._now["dp.strategy"]

    @property
    def simultaneous(self) -> bool:
        """Whether all intervals of a result hold together."""
        return self._now["dp.simultaneous"] == "on"

    @property
    def extremes(self) -> bool:
        """Whether aggregates that single records decide are answered by noisy numbers."""
        return self._now["dp.extremes"] == "on"

    @property
    def source(self) -> Answers:
        return cast(Answers, self._now["dp.source"])

    @property
    def nonnegative(self) -> bool:
        """Whether values that cannot be negative are reported as at least 0."""
        return self._now["dp.nonnegative"] == "on"

    @property
    def as_of(self) -> AsOf | None:
        """The day, the moment or the version that is asked about; None for the present one."""
        return AsOf.of(self._now["dp.as_of"])

    @property
    def minimum_count(self) -> float:
        """Counts below it are suppressed; 0 for none."""
        return float(self._now["dp.minimum_count"] or 0)

    @property
    def notices(self) -> bool:
        return self._now["dp.notices"] == "on"

    @property
    def statement_timeout(self) -> float:
        """Seconds that a statement may take, infinity for no limit of the session's own."""
        limit = milliseconds(self._now["statement_timeout"])
        return limit / 1000 if limit else float("inf")

    @property
    def time_zone(self) -> str:
        return self._now["timezone"]

    def wanted(self, notices: Sequence[Notice]) -> tuple[Notice, ...]:
        """The messages whose severity the client wants to be sent."""
        wanted = {"info", *SEVERITIES[SEVERITIES.index(self._now["client_min_messages"]) :]}
        return tuple(notice for notice in notices if notice.severity.lower() in wanted)

    def show(self, name: str) -> str:
        """Raises UndefinedSetting."""
        name = name.lower()
        found = self._all.get(name)
        if found is None:
            raise _unknown(name)
        return found

    def all(self) -> dict[str, str]:
        return dict(sorted(self._all.items()))

    def values(self) -> tuple[str, ...]:
        """The values of all settings that can change an answer, in a fixed order."""
        return self._values

    def reportable(self) -> dict[str, str]:
        """What PostgreSQL reports by ParameterStatus, with the current values."""
        return {name: self.show(name) for name in REPORTED}

    def set(self, name: str, value: str | None, *, local: bool = False) -> None:
        """Set a setting, with None to its default; ``local`` for the transaction alone.

        Raises UndefinedSetting or InvalidParameterValue; then nothing changes.
        """
        name = name.lower()
        if name in _BLOCK:
            self.set_block({name: value})
            return
        if name in self._fixed:
            raise InvalidParameterValue(f'parameter "{name}" cannot be changed')
        if name not in self._defaults:
            raise _unknown(name)
        changed = self._read(name, value)
        state = self._state
        if local:
            self.restore(replace(state, local={**state.local, **changed}))
        else:
            kept = {key: text for key, text in state.local.items() if key not in changed}
            self.restore(replace(state, session={**state.session, **changed}, local=kept))

    def _read(self, name: str, value: str | None) -> dict[str, str]:
        """The settings that change; one target for the answers replaces another."""
        if value is None:
            names = TARGETS if name in TARGETS else (name,)
            return {key: self._defaults[key] for key in names}
        if name in KEPT:
            return {name: KEPT[name].read(name, value, self._now[name])}
        given = dp.SETTINGS[name].read(name, value.strip(), self._now[name])
        return {**(dict.fromkeys(TARGETS, "") if name in TARGETS else {}), name: given}

    def reset_all(self) -> None:
        encoding = {"client_encoding": self._now["client_encoding"]}
        self.restore(replace(self._state, session={**self._defaults, **encoding}, local={}))

    # The transaction, and its block

    def snapshot(self) -> object:
        """The settings as they are, for `restore`."""
        return self._state

    def restore(self, snapshot: object) -> None:
        """Undo what was set since the snapshot: a rollback."""
        if isinstance(snapshot, _State):
            self._state = snapshot
            self._all, self._now = _joined(snapshot, self._fixed)
            self._values = tuple(v for name, v in self._all.items() if name not in WITHOUT_EFFECT)

    def begin(self, modes: Mapping[str, str | None]) -> None:
        """Begin a block with these modes. If there is one already, it takes the modes."""
        if self._state.block is None:
            self.restore(replace(self._state, block=_next_block(self._now)))
        self.set_block(modes)

    def set_block(self, modes: Mapping[str, str | None]) -> bool:
        """Set modes of the block. Without a block they end with the statement; returns False."""
        begun = _next_block(self._now)
        read = {
            name: begun[name]
            if value is None
            else KEPT[f"default_{name}"].read(name, value, begun[name])
            for name, value in modes.items()
        }
        if not self.in_block:
            return False
        self.restore(replace(self._state, block={**(self._state.block or {}), **read}))
        return True

    @property
    def in_block(self) -> bool:
        return self._state.block is not None

    def end(self) -> None:
        """End the transaction, its block and what was local to it."""
        if self._state.local or self.in_block:
            self.restore(_State(self._state.session, {}, None))


@dataclass(frozen=True)
class _State:
    """What a transaction may undo: values of the session, those of the transaction, which override
    them, and the modes of its block, None without one. Never changed in place."""

    session: Mapping[str, str]
    local: Mapping[str, str]
    block: Mapping[str, str] | None


def _next_block(values: Mapping[str, str]) -> dict[str, str]:
    return {name: values[f"default_{name}"] for name in _BLOCK}


def _joined(state: _State, fixed: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """All settings that SHOW knows, and those of them that may be set."""
    now = {**state.session, **state.local}
    return {**fixed, **now, **(state.block or _next_block(now))}, now


def _unknown(name: str) -> UndefinedSetting:
    hint = f"Known: {', '.join(DESCRIPTIONS)}." if name.startswith("dp.") else None
    return UndefinedSetting(f'unrecognized configuration parameter "{name}"', hint=hint)


@lru_cache(maxsize=256)
def _exact(shown: str) -> Fraction:
    return Fraction(shown)
