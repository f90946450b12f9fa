"""What planning gives: what a statement asks of each protected table, and what is left to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import pyarrow as pa

from tallyveil.workload.workload import Column, IntArray, Summed, Workload

__all__ = ["Caution", "Claim", "NoisyTable", "OrderedBy", "Output", "Plan", "Projection"]


@dataclass(frozen=True)
class Caution:
    """What an answer does not say by itself. It follows from the policy and the statement alone;
    ``position`` counts characters of the statement from 1.
    """

    message: str
    detail: str | None = None
    hint: str | None = None
    position: int | None = None


@dataclass(frozen=True)
class Output:
    """An aggregate of a block: which column of which table's workload, in which Arrow type.

    Group r is row ``rows[r]`` of the column, or row r where ``rows`` is None. If it is ``summed``,
    the column is one of those that the plan sums up from a finer set.
    """

    table: str
    column: int
    type: pa.DataType
    rows: IntArray | None = None
    summed: bool = False


@dataclass(frozen=True)
class Claim:
    """That the truth of the output numbered ``output`` is from ``low`` to ``high``, None for an end
    that is open.
    """

    output: int
    low: Fraction | None
    high: Fraction | None


@dataclass(frozen=True)
class NoisyTable:
    """The relation a block reads instead of the protected table.

    Its rows are the public groups: ``keys`` (``__k0 …``), then per output the noisy value
    ``__c0 …`` and the ends of its interval, ``__l0 …`` and ``__u0 …``. After them, in double
    precision, the standard deviations of the outputs numbered in ``deviations``, ``__s0 …`` by
    output, and the probabilities of ``claims``, ``__p0 …`` by claim.
    """

    name: str
    keys: pa.Table
    height: int
    outputs: tuple[Output, ...]
    deviations: tuple[int, ...] = ()
    claims: tuple[Claim, ...] = ()


@dataclass(frozen=True)
class OrderedBy:
    """Rows by a column of the noisy table."""

    column: str
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class Projection:
    """All that a statement does with the rows of its only noisy table.

    ``items`` are the result's columns: the name, the noisy table's column, and the DuckDB type.
    """

    items: tuple[tuple[str, str, str], ...]
    order: tuple[OrderedBy, ...] = ()
    offset: int = 0
    limit: int | None = None


@dataclass(frozen=True)
class Plan:
    """``workloads`` by protected table, and what is ``summed`` up from these; ``sql`` is DuckDB's,
    over ``noisy`` and ``relations``. ``projection`` is what it does where that takes no database,
    else None.

    ``domain_queries`` are the SQL that gave the coefficients, ``remarks`` what was chosen in
    planning, for EXPLAIN, and ``cautions`` what the analyst should know with the answer.
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

    def column(self, output: Output) -> Column:
        if output.summed:
            return self.summed[output.table][output.column].column
        return self.workloads[output.table].columns[output.column]

    @property
    def private(self) -> bool:
        return any(workload.columns for workload in self.workloads.values())
