"""What is known of a request's rows: recorded answers of their own, and estimates from several.

For each row there is the best recorded answer of this very row, and the best combination of all
that was recorded and bears on it (`estimates`); the narrower of the two is what history says. An
answer of a mechanism with a public range stands for itself: it has no part in a combination.

Which of several estimates is taken is decided by the laws of their errors, never by their values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tallyveil import deadline
from tallyveil.accountant import Accountant
from tallyveil.gate.choice import Noise
from tallyveil.gate.request import Request, Rows
from tallyveil.gate.settings import Target
from tallyveil.knowledge.estimated import Criterion, Estimated, improves, surpasses
from tallyveil.knowledge.estimates import Estimates, Outlook
from tallyveil.knowledge.known import InRange, Known, Unbiased, error_of, known, released
from tallyveil.mechanisms import AnyMechanism, CountMechanism
from tallyveil.workload.workload import Column, IntArray

__all__ = ["Bought", "Found", "History", "falling_short"]

# Widths and variances that differ by less than this are the same precision computed twice.
_SAME: Final = 1 + 2e-9


@dataclass(frozen=True)
class Found:
    """``rows`` by table; ``outlooks[table, c]`` is where the estimates of column c came from."""

    rows: Mapping[str, Rows]
    outlooks: Mapping[tuple[str, int], Outlook]

    def estimates(self, table: str, column: int, rows: IntArray) -> list[Estimated | None]:
        """Of some rows; what is bought beside them can be combined with these."""
        outlook = self.outlooks.get((table, column))
        return [None if outlook is None else outlook.rows[row] for row in rows.tolist()]


@dataclass(frozen=True)
class Bought:
    """A charge that was answered: of the request's column ``columns[n]`` the rows ``rows[n]``,
    whose noisy answers at scale ``scales[n]`` are ``values[n]``."""

    table: str
    charge_id: int
    mechanism: AnyMechanism
    columns: tuple[int, ...]
    rows: tuple[IntArray, ...]
    scales: tuple[float, ...]
    values: tuple[tuple[int, ...], ...]


class History:
    """Reads what the accountant remembers. Threads may share it."""

    def __init__(self, accountant: Accountant) -> None:
        self._accountant = accountant
        self._estimates = Estimates(accountant)

    def state(self, request: Request) -> tuple[int, ...]:
        """How much was recorded about the request's tables; it grows with every answer."""
        return tuple(self._accountant.recorded(table) for table in request.workloads)

    def find(self, request: Request, wanted: Mapping[str, Noise]) -> Found:
        """What history says of each row; nothing under "fresh"."""
        rows: dict[str, Rows] = {}
        outlooks: dict[tuple[str, int], Outlook] = {}
        for table, workload in request.workloads.items():
            noise, columns = wanted[table], []
            for number, column in enumerate(workload.columns):
                deadline.check()
                found: Sequence[Known | None] = (None,) * column.height
                if request.source != "fresh":
                    if _additive(noise, noise.scales[number]) or noise.by_auto:
                        outlook = self._outlook(request, table, column)
                        outlooks[table, number] = outlook
                        found = self._unbiased(request.target, table, column, outlook)
                    if not _additive(noise, noise.scales[number]):
                        found = self._in_range(request, table, column, noise, number, found)
                columns.append(tuple(found))
            rows[table] = tuple(columns)
        return Found(rows, outlooks)

    def after(self, request: Request, found: Found, bought: Sequence[Bought]) -> dict[str, Rows]:
        """What history says of each row once something was bought; under "fresh", what was."""
        rows = {
            table: [list(column) for column in columns] for table, columns in found.rows.items()
        }
        for purchase in bought:
            columns = rows[purchase.table]
            self._put(request, purchase, columns)
            if request.source != "fresh" and not _alone(found):
                self._combine(request, found, purchase, columns)
        result = {table: tuple(map(tuple, columns)) for table, columns in rows.items()}
        if request.source != "fresh":
            self._remember(request, result)
        return result

    def _remember(self, request: Request, reported: Mapping[str, Rows]) -> None:
        """See to it that what is about to be reported can be found again, in any process."""
        by = _by(request.target)
        unknown = {
            table: [
                derivation
                for column, rows in zip(request.workloads[table].columns, known, strict=True)
                for derivation in self._estimates.unknown(table, column, rows, by)
            ]
            for table, known in reported.items()
        }
        if any(unknown.values()):
            self._accountant.derive(unknown, request.analyst)

    def _put(
        self, request: Request, purchase: Bought, columns: Sequence[list[Known | None]]
    ) -> None:
        """The answers that were bought, where they are better than what was known."""
        by = _by(request.target)
        for place, number in enumerate(purchase.columns):
            answers, scale = columns[number], purchase.scales[place]
            own, says = purchase.rows[place].tolist(), released(purchase.mechanism, scale)
            for row, value in zip(own, purchase.values[place], strict=True):
                fresh, before = says(value), answers[row]
                if before is None or isinstance(before, InRange) or isinstance(fresh, InRange):
                    answers[row] = fresh
                else:
                    answers[row] = _better(before, fresh, by)

    def _combine(
        self,
        request: Request,
        found: Found,
        purchase: Bought,
        columns: Sequence[list[Known | None]],
    ) -> None:
        """Estimates of all columns of the table, for each may bear on the others."""
        table, by = purchase.table, _by(request.target)
        if isinstance(purchase.mechanism, CountMechanism):
            return
        among = len(request.workloads[table].columns)
        for number, column in enumerate(request.workloads[table].columns):
            deadline.check()
            outlook = found.outlooks.get((table, number))
            if outlook is None:
                continue
            if number in purchase.columns:
                place = purchase.columns.index(number)
                charged = (purchase.charge_id, place)
                now = self._estimates.after(
                    table, column, outlook, charged, purchase.rows[place], by, among
                )
            else:
                now = self._outlook(request, table, column)
            for row, estimate in enumerate(now.rows):
                answer = columns[number][row]
                if not isinstance(answer, InRange):
                    columns[number][row] = _improved(answer, estimate, request.target)

    def _outlook(self, request: Request, table: str, column: Column) -> Outlook:
        target = request.target
        among = len(request.workloads[table].columns)
        return self._estimates.outlook(table, column, _by(target), target.confidence, among)

    def _unbiased(
        self, target: Target, table: str, column: Column, outlook: Outlook
    ) -> list[Unbiased | None]:
        recorded = self._accountant.recall(table, column.row_keys)
        own = (None if one is None else known(one) for one in recorded)
        unbiased = (None if isinstance(one, InRange) else one for one in own)
        return [_improved(a, b, target) for a, b in zip(unbiased, outlook.rows, strict=True)]

    def _in_range(
        self,
        request: Request,
        table: str,
        column: Column,
        noise: Noise,
        number: int,
        unbiased: Sequence[Known | None],
    ) -> list[Known | None]:
        """Recorded answers of the mechanism itself, or unbiased ones that serve better."""
        own = self._accountant.recall(table, column.row_keys, noise.mechanism.name)
        ranged = [None if recorded is None else known(recorded) for recorded in own]
        target, scale = request.target, noise.scales[number]
        result: list[Known | None] = []
        for a, b in zip(ranged, unbiased, strict=True):
            enough = suffices(a, target, column, noise, scale)
            other = suffices(b, target, column, noise, scale)
            result.append(a if a is not None and (b is None or enough or not other) else b)
        return result


def falling_short(
    rows: Sequence[Known | None], target: Target, column: Column, wanted: Noise, scale: float
) -> IntArray:
    """The numbers of the rows that do not suffice; rows of one law of error are looked at once."""
    enough: dict[int, bool] = {}
    short = []
    for number, row in enumerate(rows):
        if row is not None:
            error = error_of(row)
            if error not in enough:
                enough[error] = suffices(row, target, column, wanted, scale)
            if enough[error]:
                continue
        short.append(number)
    return np.array(short, dtype=np.int64)


def suffices(
    row: Known | None, target: Target, column: Column, wanted: Noise, scale: float
) -> bool:
    """Whether history's answer is as good as the target asks. An answer of a mechanism with a
    public range serves for this mechanism only, and only at the same scale or a smaller one."""
    if row is None:
        return False
    if isinstance(row, InRange):
        if row.mechanism != wanted.mechanism:
            return False
        return row.mechanism.spread(row.scale) <= wanted.mechanism.spread(scale) * _SAME
    if target.half_width is None:
        return row.variance <= wanted.mechanism.worst_error(scale) * _SAME
    return row.half_width(target.confidence) <= float(target.half_width / column.multiplier) * _SAME


def _additive(noise: Noise, scale: float) -> bool:
    return not isinstance(noise.mechanism, CountMechanism) or scale == 0


def _by(target: Target) -> Criterion:
    return target.confidence if target.half_width is not None else None


def _better(first: Unbiased | None, second: Unbiased | None, by: Criterion) -> Unbiased | None:
    """The better of two answers, the first where they are equals."""
    if first is None or second is None:
        return first or second
    return second if surpasses(second, first, by) else first


def _improved(reported: Unbiased | None, other: Unbiased | None, target: Target) -> Unbiased | None:
    """The other answer, if it improves on one that may have been reported."""
    if reported is None or other is None:
        return reported or other
    better = improves(other, reported, _by(target), target.confidence)
    return other if better else reported


def _alone(found: Found) -> bool:
    """Whether one row was asked that history does not determine: then nothing recorded can better
    its fresh answer, for in A H + a q = q the a is 1 and A has no part in it."""
    return [row for rows in found.rows.values() for row in rows] == [(None,)]
