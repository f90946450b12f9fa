"""The noisy tables of a block: the distinct columns that they need, and their keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import Final

import numpy as np
import pyarrow as pa
from sqlglot import exp

from tallyveil import deadline
from tallyveil.errors import StatementTooComplex
from tallyveil.rewriter.domain.evaluate import WIDE, Evaluated, EvaluatedOutput
from tallyveil.rewriter.private.block import Block
from tallyveil.rewriter.private.grouping import Grouping, choose_sources, coarser_rows
from tallyveil.rewriter.private.outputs import Outputs
from tallyveil.rewriter.private.windows import Sums
from tallyveil.rewriter.query_plan import Caution, NoisyTable, Output
from tallyveil.workload.histogram import Histogram
from tallyveil.workload.workload import Column, IntArray, Summed, Workload

__all__ = ["Collected", "noisy_tables"]

MAX_ROWS: Final = 300_000


class Collected:
    """The distinct columns that a statement's blocks need of each table.

    Raises StatementTooComplex if they, and the columns summed up from them, have more than MAX_ROWS
    rows: each row takes a draw of noise and a row of the ledger, or a probability to compute.
    """

    def __init__(self) -> None:
        self._rows = 0
        self._columns: dict[str, list[Column]] = {}
        self._numbers: dict[object, int] = {}
        self._summed: dict[str, list[Summed]] = {}
        self._shown: set[tuple[str, int]] = set()
        self._histograms: dict[str, dict[tuple[bytes, ...], Histogram]] = {}
        self.cautions: tuple[Caution, ...] = ()

    def count(self, rows: int) -> None:
        deadline.check()
        self._rows += rows
        if self._rows > MAX_ROWS:
            raise StatementTooComplex(
                f"the statement asks for {self._rows} numbers; the limit is {MAX_ROWS}",
                hint="Ask for fewer groups or fewer aggregates, or in several statements.",
            )

    def add(self, table: str, new: Column, *, shown: bool = True) -> int:
        """Return the column's number in the table. Adds it unless known. ``shown``: it is not asked
        for sums of its rows alone."""
        key = (table, new.multiplier, new.row_names)
        columns = self._columns.setdefault(table, [])
        if key not in self._numbers:
            self._numbers[key] = len(columns)
            columns.append(new)
        if shown:
            self._shown.add((table, self._numbers[key]))
        return self._numbers[key]

    def unit(self, table: str, number: int) -> Fraction:
        """The multiplier of an added column."""
        return self._columns[table][number].multiplier

    def add_up(self, table: str, new: Summed) -> int:
        """Add a column that is summed up; return its number."""
        columns = self._summed.setdefault(table, [])
        columns.append(new)
        return len(columns) - 1

    def histogram(self, table: str, new: Histogram) -> int:
        """Return the histogram's number in the table. Adds it unless an equal one is known."""
        own = self._histograms.setdefault(table, {})
        own.setdefault(new.keys, new)
        return list(own).index(new.keys)

    @property
    def histograms(self) -> dict[str, tuple[Histogram, ...]]:
        return {table: tuple(own.values()) for table, own in self._histograms.items()}

    @property
    def summed(self) -> dict[str, tuple[Summed, ...]]:
        return {table: tuple(columns) for table, columns in self._summed.items()}

    def workloads(self) -> dict[str, Workload]:
        return {
            table: Workload(
                table,
                tuple(columns),
                frozenset(n for n in range(len(columns)) if (table, n) not in self._shown),
            )
            for table, columns in self._columns.items()
        }


def noisy_tables(
    block: Block,
    name: str,
    evaluated: Sequence[Evaluated],
    collected: Collected,
    wanted: Outputs,
    share: bool,
    windows: Mapping[int, Sums] = MappingProxyType({}),
) -> tuple[tuple[NoisyTable, ...], tuple[str, ...]]:
    """A noisy table for each grouping set, released or summed up, and remarks on which it is.
    ``windows`` are the sums of the outputs that are windows, summed up too if ``share``."""
    groups = block.groups
    about = tuple(wanted.deviations), tuple(wanted.claims), wanted.quotients.columns
    if not groups.several:
        outputs = _outputs(block, evaluated[0], collected, share, windows)
        table = NoisyTable(name, evaluated[0].keys, evaluated[0].height, outputs, *about)
        return (table,), ()
    keys = [_keys(groups, number, evaluated) for number in range(len(evaluated))]
    sources = list(map(groups.sets.index, groups.sets))
    if share:
        sources = choose_sources(groups.sets, [one.height for one in evaluated])
    tables = []
    for number, own in enumerate(groups.sets):
        source = sources[number]
        names = [f"__k{key}" for key in own]
        places = None
        if groups.sets[source] != own:
            places = coarser_rows(keys[source], keys[number], names)
        if places is not None and _repeats_noise(evaluated[source], places):
            places = None
        if places is None:
            sources[number] = source = groups.sets.index(own)
        outputs = _outputs(block, evaluated[source], collected)
        if places is not None:
            pairs = zip(outputs, evaluated[number].outputs, strict=True)
            outputs = tuple(_summed(fine, own, places, collected) for fine, own in pairs)
        tables.append(
            NoisyTable(f"{name}_{number}", keys[number], evaluated[number].height, outputs, *about)
        )
    return tuple(tables), _remarks(groups, sources)


def _outputs(
    block: Block,
    evaluated: Evaluated,
    collected: Collected,
    share: bool = True,
    windows: Mapping[int, Sums] = MappingProxyType({}),
) -> tuple[Output, ...]:
    table = block.domain.table
    outputs = []
    for number, one in enumerate(evaluated.outputs):
        (column, rows), kind = one.distinct, one.type
        window = number in windows
        if window:
            kind = WIDE if pa.types.is_integer(kind) else kind  # as SUM makes it
            sums, rows, parts, places = windows[number]
            column = column if share else sums
        of = collected.add(table, column, shown=not (window and share))
        if window and share:
            own = Summed(sums.in_units(collected.unit(table, of)), of, parts, places)
            of = collected.add_up(table, own)
        outputs.append(Output(table, of, kind, rows, summed=window and share))
    return tuple(outputs)


def _summed(
    fine: Output, coarse: EvaluatedOutput, places: IntArray, collected: Collected
) -> Output:
    """An output of a coarser set: group ``places[i]`` adds up the finer set's groups i.

    Of coarser groups that share a row, only the first is computed."""
    column, rows = coarse.distinct
    parts = np.arange(len(places)) if fine.rows is None else fine.rows
    if rows is not None:
        first = np.unique(rows, return_index=True)[1]
        kept = first[rows[places]] == places
        parts, places = parts[kept], rows[places[kept]]
    unit = collected.unit(fine.table, fine.column)
    own = Summed(column.in_units(unit), fine.column, parts, places)
    return Output(fine.table, collected.add_up(fine.table, own), fine.type, rows, summed=True)


def _repeats_noise(evaluated: Evaluated, places: IntArray) -> bool:
    """Whether a sum over these groups would add one answer, with its noise, twice or more.

    The interval of a sum assumes independent noise.
    """
    for output in evaluated.outputs:
        keys = output.column.row_keys
        rows = range(len(places)) if output.rows is None else output.rows.tolist()
        parts = {(place, keys[row]) for place, row in zip(places.tolist(), rows, strict=True)}
        if len(parts) < len(places):
            return True
    return False


def _keys(groups: Grouping, number: int, evaluated: Sequence[Evaluated]) -> pa.Table:
    """All keys, NULL if the set lacks a key, and ``__g…``, which is 1 if it does and 0 if not."""
    own, height = groups.sets[number], evaluated[number].height
    columns: dict[str, pa.Array] = {}
    for key in range(len(groups.keys)):
        holder = next(n for n, keys in enumerate(groups.sets) if key in keys)
        place = groups.sets[holder].index(key)
        if key in own:
            columns[f"__k{key}"] = evaluated[number].keys.column(f"__k{own.index(key)}")
        else:
            kind = evaluated[holder].keys.column(f"__k{place}").type
            columns[f"__k{key}"] = pa.nulls(height, kind)
    for key in range(len(groups.keys)):
        columns[f"__g{key}"] = pa.array([int(key not in own)] * height, pa.int64())
    return pa.table(columns)


def _remarks(groups: Grouping, sources: Sequence[int]) -> tuple[str, ...]:
    names = [_shown(key) for key in groups.keys]
    shown = ["(" + ", ".join(names[key] for key in keys) + ")" for keys in groups.sets]
    remarks = []
    for number, source in enumerate(sources):
        if groups.sets[number] == groups.sets[source]:
            remarks.append(f"Grouping set {shown[number]}: released")
        else:
            remarks.append(f"Grouping set {shown[number]}: summed up from {shown[source]}")
    return tuple(remarks)


def _shown(key: exp.Expr) -> str:
    """A key's SQL, without names of internal tables."""
    holder = exp.Paren(this=key.copy())
    for column in holder.find_all(exp.Column):
        column.set("table", None)
        column.this.set("quoted", False)
    return str(holder.this.sql("postgres"))
