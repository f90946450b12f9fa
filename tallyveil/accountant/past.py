"""What the ledger had at some time: what is known from it never changes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Protocol

from tallyveil.accountant.accountant import Accountant
from tallyveil.accountant.charges import Answer
from tallyveil.accountant.checkpoint import Arrays
from tallyveil.accountant.derivation import Derivation
from tallyveil.accountant.releases import Of, Release

__all__ = ["Past", "Records"]


class Records(Protocol):
    """What is recorded of tables, as `Accountant` has it. ``version`` is that of a table whose rows
    are replaced, otherwise 0."""

    @property
    def seed(self) -> int: ...

    def extent(self, table: str, version: int = 0) -> tuple[int, int]: ...

    def learned(
        self, table: str, releases: int, derivations: int, version: int = 0
    ) -> tuple[list[Release], list[Derivation]]: ...

    def statistics(self, table: str, first: int, version: int = 0) -> list[Release]: ...

    def pending(self, table: str) -> list[Answer]: ...

    def derive(
        self, table: str, derivations: Sequence[Derivation], analyst: str, version: int = 0
    ) -> None: ...

    def derived(self, table: str, derive: Callable[[], Arrays], version: int = 0) -> Arrays: ...

    def summarise(self, least: int | None = None) -> None: ...


class Past:
    """The `Records` of the first charges, up to the one of number ``until``. Threads may share it.

    Answers are taken in the order in which they were recorded, up to the first to a later charge.
    Nothing is recorded from it: what is known at that moment stays as it is.
    """

    def __init__(self, accountant: Accountant, until: int) -> None:
        self._accountant, self._until = accountant, until
        self._kept: dict[Of, tuple[list[Release], list[Derivation]]] = {}

    @staticmethod
    def until(accountant: Accountant, moment: dt.datetime) -> int:
        """The number of the last charge made until a moment, in UTC; 0 if none was."""
        latest = accountant.charges(latest_first=True)
        return next((one.charge_id for one in latest if one.time <= moment), 0)

    @property
    def seed(self) -> int:
        return self._accountant.seed

    def extent(self, table: str, version: int = 0) -> tuple[int, int]:
        releases, derivations = self._of(table, version)
        return len(releases), len(derivations)

    def learned(
        self, table: str, releases: int, derivations: int, version: int = 0
    ) -> tuple[list[Release], list[Derivation]]:
        own, made = self._of(table, version)
        return own[releases:], made[derivations:]

    def statistics(self, table: str, first: int, version: int = 0) -> list[Release]:
        return self._until_then(self._accountant.statistics(table, 0, version))[first:]

    def pending(self, table: str) -> list[Answer]:
        return []

    def derive(
        self, table: str, derivations: Sequence[Derivation], analyst: str, version: int = 0
    ) -> None:
        """Record nothing."""

    def derived(self, table: str, derive: Callable[[], Arrays], version: int = 0) -> Arrays:
        return {}

    def summarise(self, least: int | None = None) -> None:
        """Write nothing."""

    def _of(self, table: str, version: int) -> tuple[list[Release], list[Derivation]]:
        of = Of(table, version)
        found = self._kept.get(of)
        if found is None:
            every, made = self._accountant.learned(table, 0, 0, version)
            releases = self._until_then(every)
            columns = sum(len(one.answers) for one in releases)
            kept = [one for one in made if one.basis.last < columns]
            found = self._kept.setdefault(of, (releases, kept))
        return found

    def _until_then(self, every: list[Release]) -> list[Release]:
        later = (n for n, one in enumerate(every) if one.charge_id > self._until)
        return every[: next(later, len(every))]
