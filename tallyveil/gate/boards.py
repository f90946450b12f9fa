"""The statements of a dashboard, bought together: their rows, each once, as one statement's.

Together they cost less than one by one where parts or another strategy of the rows of several
serve all of them. What is bought depends on the statements, the settings and the policy alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final, NamedTuple

from tallyveil.errors import FeatureNotSupported
from tallyveil.gate.deciding.best_offer import wanted
from tallyveil.gate.deciding.noise import Noise
from tallyveil.gate.deciding.request import Request
from tallyveil.gate.strategies.offer import Limits
from tallyveil.mechanisms.measure import power
from tallyveil.rewriter import Workload
from tallyveil.workload.workload import Column

__all__ = ["Board", "Errors", "boards"]

_STEPS: Final = 20  # of the search for a cost
_FURTHER: Final = 1.05  # times the cost, where that search does not end
_ENOUGH: Final = 1 + 1e-9  # times the variance that is wanted
_DIGITS: Final = 4  # of a cost: so it does not depend on last bits


class Errors(NamedTuple):
    """Of all rows of a board, in their answers' units: the root of the sum of their squared errors,
    and the largest standard deviation."""

    total: float
    worst: float


@dataclass(frozen=True, eq=False)
class Board:
    """What several statements ask of one table, as one ``request``. ``variances`` has what each of
    its columns would have if its statement were asked alone, in lattice units."""

    table: str
    request: Request
    variances: tuple[float, ...]
    limits: Limits

    @property
    def workload(self) -> Workload:
        return self.request.workloads[self.table]

    @property
    def rows(self) -> int:
        return sum(column.height for column in self.workload.columns)

    def at(self, cost: Fraction) -> Request:
        """The request, at a cost in the measure of the table's budget."""
        rho = self.limits.account.measure == "rho"
        epsilon, own = (None, cost) if rho else (cost, None)
        return replace(
            self.request,
            target=replace(self.request.target, epsilon=epsilon, rho=own, half_width=None),
        )

    def errors(self, cost: Fraction, *, together: bool = True) -> Errors:
        """The errors of answers that are bought for ``cost``, together or as they are asked."""
        each = _variances(self._noise(cost) if together else self._as_asked(cost))
        squares = [
            (float(column.multiplier) ** 2 * one, column.height)
            for column, one in zip(self.workload.columns, each, strict=True)
        ]
        total = math.sqrt(sum(square * height for square, height in squares))
        return Errors(total, math.sqrt(max(square for square, _ in squares)))

    def least_cost(self) -> Fraction:
        """The least cost at which no row is less precise than if its statement were asked alone, to
        four digits.

        Raises what `wanted` raises.
        """
        exponent = power(self.limits.account.measure) / 2  # variances fall with cost ** (1 / this)
        cost = Fraction(1)
        for _ in range(_STEPS):
            ratio = self._imprecision(cost)
            if 1 - 10.0**-_DIGITS <= ratio <= _ENOUGH or not ratio:
                return cost
            above = _up(float(cost) * ratio**exponent)
            cost = above if above != cost else _up(float(cost) * (1 + 2 * 10.0**-_DIGITS))
        while (
            self._imprecision(cost) > _ENOUGH
        ):  # another strategy at each cost: then go on upwards
            cost = _up(float(cost) * _FURTHER)
        return cost

    def _imprecision(self, cost: Fraction) -> float:
        """The largest variance at this cost, times that wanted of its row."""
        pairs = zip(_variances(self._noise(cost)), self.variances, strict=True)
        return max(one / own if own else 0.0 for one, own in pairs)

    def _noise(self, cost: Fraction) -> Noise:
        return wanted(self.at(cost), self.workload, self.limits)

    def _as_asked(self, cost: Fraction) -> Noise:
        request = self.at(cost)
        additive = self.table in request.additive
        return self.limits.choice.noise(
            self.workload, request.target, request.mechanism, additive=additive
        )


def boards(requests: Sequence[Request], limits: Mapping[str, Limits]) -> list[Board]:
    """The requests by table, in the order in which they are first asked.

    Raises FeatureNotSupported if their settings differ in more than what they may cost, and what
    `wanted` raises.
    """
    for request in requests:
        _check_alike(requests[0], request)
    found = list[Board]()
    for table in dict.fromkeys(table for one in requests for table in one.workloads):
        own = [one for one in requests if table in one.workloads]
        needed: dict[object, tuple[Column, float]] = {}
        for request in own:
            noise = wanted(request, request.workloads[table], limits[table])
            for column, variance in _asked(request, table, noise):
                key = (column.row_names, column.multiplier)
                before = needed.get(key, (column, math.inf))[1]
                needed[key] = column, min(before, variance)
        columns, variances = zip(*needed.values(), strict=True)
        whole = replace(
            requests[0],
            workloads={table: Workload(table, columns)},
            sql="; ".join(one.sql for one in own),
            additive=frozenset().union(*(one.additive for one in own)),
            summed={},
        )
        found.append(Board(table, whole, variances, limits[table]))
    return found


def _check_alike(first: Request, other: Request) -> None:
    if other.histograms:
        raise FeatureNotSupported(
            "distinct counts and quantiles are not bought together with other statements",
            hint="Leave such statements out of the file, and ask them by themselves.",
        )
    for name in ("mechanism", "by_invariants", "source", "all_looks", "nonnegative", "analyst"):
        if getattr(first, name) != getattr(other, name):
            raise FeatureNotSupported(
                f"statements that are bought together must have the same settings: {name} differs",
                hint="Put those with other settings into a file of their own.",
            )


def _asked(request: Request, table: str, noise: Noise) -> Iterator[tuple[Column, float]]:
    """Each column of a request, with the variance of its rows. Columns that are summed up are added
    where they are no sums of what is bought; else they follow."""
    workload = request.workloads[table]
    columns = workload.columns
    for number, own in enumerate(zip(columns, _variances(noise), strict=True)):
        if noise.instead is None or number not in workload.hidden:
            yield own
    if noise.instead is not None:
        summed = (one.column for one in request.summed.get(table, ()))
        yield from zip(summed, (d**2 for d in noise.deviations[len(columns) :]), strict=True)


def _variances(noise: Noise) -> list[float]:
    """Of the rows of each column that is asked, in lattice units."""
    if noise.instead is not None:
        return [one**2 for one in noise.deviations[: len(noise.scales)]]
    followers = {} if noise.distinct is None else noise.distinct.followers
    error = noise.mechanism.worst_error
    return [
        error(noise.scales[followers[number].of]) * float(followers[number].times) ** 2
        if number in followers
        else (error(scale) if scale else 0.0)
        for number, scale in enumerate(noise.scales)
    ]


def _up(cost: float) -> Fraction:
    """The least number of four digits that is not less, but for rounding."""
    exponent = math.floor(math.log10(cost)) - _DIGITS + 1
    return math.ceil(cost / 10.0**exponent * (1 - 1e-9)) * Fraction(10) ** exponent
