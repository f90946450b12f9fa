"""A plan: the workload of each protected table, and the statement over the noisy rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final, Literal, NamedTuple

import pyarrow as pa

from tallyveil.workload.histogram import Histogram
from tallyveil.workload.workload import Column, IntArray, Summed, Workload

__all__ = [
    "STATISTIC", "Caution", "Claim", "Item", "Moment", "NoiseCheck", "NoisyTable", "OrderedBy",
    "Output", "Plan", "Projection", "Quotient", "Share", "StatisticOutput",
]  # fmt: skip


@dataclass(frozen=True)
class Caution:
    """A warning about an answer, which follows from the policy and the statement alone.

    ``position`` counts characters of the statement from 1.
    """

    message: str
    detail: str | None = None
    hint: str | None = None
    position: int | None = None


@dataclass(frozen=True)
class Output:
    """An aggregate of a block: a column of a table's workload, and the Arrow type of its answers.

    Group r is row ``rows[r]`` of the column, or row r if ``rows`` is None. If ``summed``, it is a
    column of `Plan.summed`, which adds up a finer grouping set.
    """

    table: str
    column: int
    type: pa.DataType
    rows: IntArray | None = None
    summed: bool = False


STATISTIC: Final = 1_000
"""From here on the outputs of a block are numbered that are statistics: more than it may have."""


@dataclass(frozen=True)
class StatisticOutput:
    """A distinct count or quantile, numbered from `STATISTIC` on. Group r of the block is group
    ``groups[r]`` of the table's histogram numbered ``histogram``; -1 has no value. ``values`` are
    those of the histogram's rows, in its order, if a quantile is asked.
    """

    number: int
    table: str
    histogram: int
    type: pa.DataType
    groups: IntArray
    values: pa.Array | None


@dataclass(frozen=True)
class Claim:
    """The claim that the true value of the output numbered ``output`` is from ``low`` to ``high``.
    None is no bound.
    """

    output: int
    low: Fraction | None
    high: Fraction | None


class Share(NamedTuple):
    """``times`` the output numbered ``output``; of the noisy ``table`` of one row, if given."""

    table: str | None
    output: int
    times: Fraction


class Quotient(NamedTuple):
    """(Σ ``top`` + ``above``) / (Σ ``bottom`` + ``below``), a linear combination if ``bottom`` is
    empty. Its interval has one ``of`` so many equal parts of the error probability."""

    top: tuple[Share, ...]
    above: Fraction
    bottom: tuple[Share, ...]
    below: Fraction
    of: int = 1

    @property
    def shares(self) -> tuple[Share, ...]:
        return self.top + self.bottom


class Moment(NamedTuple):
    """A macro of ``moment_macros``, by ``name``, of ``sums`` and numbers: each is a linear
    combination of outputs and a constant. Its interval has one ``of`` so many equal parts of the
    error probability."""

    name: str
    sums: tuple[tuple[str, tuple[Share, ...], Fraction], ...]
    of: int = 1

    @property
    def shares(self) -> tuple[Share, ...]:
        return tuple(share for _, own, _ in self.sums for share in own)


@dataclass(frozen=True)
class NoisyTable:
    """The relation that a block reads instead of the protected table.

    Its rows are the public groups: ``keys`` (``__k0 …``), then for each output the noisy value
    ``__c0 …`` and the ends of its interval, ``__l0 …`` and ``__u0 …``. Columns in double precision
    follow: ``__s0 …``, by output, the standard deviations of the outputs numbered in
    ``deviations``, and ``__p0 …``, by claim, the probabilities of ``claims``. ``__ql0 …``,
    ``__qh0 …`` and ``__qs0 …``, by number of the ``quotients``, are the ends of their intervals and
    their standard deviations, if these letters are asked; the notice has all intervals. Values that
    the domain fixes are among the keys, as ``__v0 …``.
    """

    name: str
    keys: pa.Table
    height: int
    outputs: tuple[Output, ...]
    deviations: tuple[int, ...] = ()
    claims: tuple[Claim, ...] = ()
    quotients: tuple[tuple[Quotient | Moment, str], ...] = ()
    statistics: tuple[StatisticOutput, ...] = ()

    @property
    def types(self) -> dict[int, pa.DataType]:
        """The types of all outputs, by number."""
        found = {number: output.type for number, output in enumerate(self.outputs)}
        return found | {output.number: output.type for output in self.statistics}


@dataclass(frozen=True)
class OrderedBy:
    """An order of the rows by a column of the noisy table."""

    column: str
    descending: bool
    nulls_first: bool


class Item(NamedTuple):
    """A column of a result: its ``name``, the noisy table's column, and the DuckDB type.

    If it is an average, the column has the sums and ``counts`` is the column of the counts. It is
    NULL where the count is not positive.
    """

    name: str
    column: str
    type: str
    counts: str | None = None


@dataclass(frozen=True)
class Projection:
    """What a statement does with the rows of its only noisy table, if it takes no database.

    ``items`` are the result's columns.
    """

    items: tuple[Item, ...]
    order: tuple[OrderedBy, ...] = ()
    offset: int = 0
    limit: int | None = None


@dataclass(frozen=True)
class NoiseCheck:
    """A query on the noisy tables that finds whether noise decides what a statement shows.

    ``ratio``: the number of rows in which the interval of a denominator includes 0, and of all.
    ``rank``: the ends of the intervals by which the row numbered ``last``, the last that LIMIT
    shows, and the next are sorted.
    """

    about: Literal["ratio", "rank"]
    sql: str
    last: int = 0


@dataclass(frozen=True)
class Plan:
    """The ``workloads`` by protected table, and the columns ``summed`` up from them.

    ``sql`` is DuckDB's, over ``noisy`` and ``relations``. ``projection`` does the same without a
    database, or is None if that is not possible. ``domain_queries`` are the SQL that computed the
    coefficients, ``remarks`` choices for EXPLAIN, and ``cautions`` warnings about the answer.
    ``names`` are the numbers of the result's columns of PostgreSQL's type name, and ``checks`` ask
    where noise decides what is shown.
    """

    workloads: Mapping[str, Workload]
    noisy: tuple[NoisyTable, ...]
    sql: str
    relations: frozenset[str]
    domain_queries: tuple[str, ...]
    remarks: tuple[str, ...] = ()
    cautions: tuple[Caution, ...] = ()
    projection: Projection | None = None
    summed: Mapping[str, tuple[Summed, ...]] = field(default_factory=dict)
    names: frozenset[int] = frozenset()
    checks: tuple[NoiseCheck, ...] = ()
    histograms: Mapping[str, tuple[Histogram, ...]] = field(default_factory=dict)
    """By table: the distinct histograms of which statistics are asked."""

    def column(self, output: Output) -> Column:
        if output.summed:
            return self.summed[output.table][output.column].column
        return self.workloads[output.table].columns[output.column]

    @property
    def private(self) -> bool:
        return any(self.histograms.values()) or any(w.columns for w in self.workloads.values())
