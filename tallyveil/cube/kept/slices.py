"""Slices of a table that grows: the counts of some days that are over, never counted again.

x = Σ of the slices, whose days are disjoint. A slice is counted once, when its days are first
published, and kept in a sealed file (`SealedFiles`). So a row that comes late, or is corrected or
deleted later, changes nothing that was counted.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tallyveil.arrays import CodeArray, IntArray
from tallyveil.cube.bounding import unit_hash
from tallyveil.cube.counting import by_cells, coded_rows
from tallyveil.cube.cube import MAX_RECORDS, Cube
from tallyveil.cube.cube_loading import (
    cells_read,
    checked_columns,
    counted_rows,
    executed,
)
from tallyveil.cube.kept.sealed_cubes import with_truncates
from tallyveil.cube.kept.sealed_files import SealedFiles
from tallyveil.cube.kept.settled_rows import settled
from tallyveil.cube.members import Members
from tallyveil.cube.sources import Passed, Rows, opened
from tallyveil.cube.table_columns import unit_kind
from tallyveil.errors import SourceError
from tallyveil.policy import Policy, Table

__all__ = [
    "Days", "Slice", "count_rows", "count_slice", "cube_of", "read_slice", "recoded", "write_slice",
]  # fmt: skip

_KEPT = '"kept rows"'
_BEFORE = "kept_before"
_STEADY = "steady_values"


class Days(NamedTuple):
    """An interval of days, both ends included."""

    first: dt.date
    last: dt.date


class Slice(NamedTuple):
    """The t-th cell in use is ``codes[a][t]`` on axis a, with ``counts[t]`` records; ``units`` are
    as a `Cube` has them. ``kept`` says of how many units' rows: hashes, in two halves, and numbers,
    where all rows of a unit count together; or, after the hashes, which cells units have of the
    attributes that stay the same. ``members`` are, of units that may have several rows,
    the numbers of the units of the records of cell 0, then of cell 1 and so on, after how many
    those of each are. ``truncates`` are those of the attributes. ``total`` is the number of records
    of it and of all slices before."""

    codes: tuple[CodeArray, ...]
    counts: IntArray
    units: IntArray | None
    kept: tuple[CodeArray, ...]
    truncates: tuple[str | None, ...]
    members: tuple[CodeArray, ...] = ()
    unit_kind: str | None = None
    total: int = 0

    def after(self, table: Table, last: Slice | None) -> Slice:
        """With the total, where ``last`` is the slice before it.

        Raises SourceError if there are more records than a cube can hold.
        """
        total = int(self.counts.sum()) + (0 if last is None else last.total)
        if total > MAX_RECORDS:
            raise SourceError(
                f"tables.{table.name}: at most {MAX_RECORDS:,} records can be counted",
                hint="The versions before are served on. Records of days to come can be a table of"
                " their own.",
            )
        return self._replace(total=total)


def count_slice(
    policy: Policy, name: str, source: Passed, days: Days, before: Sequence[Slice], key: bytes
) -> Slice:
    """Count the records of these days of a table. ``before`` are its slices of earlier days.

    Raises SourceError, as `load_cubes` does.
    """
    return _counted(policy, name, source, days, before, key)


def count_rows(
    policy: Policy, name: str, source: Passed, before: Sequence[Slice], key: bytes
) -> Slice:
    """Count all records of a table whose rows are replaced. ``before`` is its last version, if
    units have stable attributes: those that it knows keep their values.

    Raises SourceError, as `load_cubes` does.
    """
    return _counted(policy, name, source, None, before, key)


def _counted(
    policy: Policy,
    name: str,
    source: Passed,
    days: Days | None,
    before: Sequence[Slice],
    key: bytes,
) -> Slice:
    table = policy.tables[name]
    alone = policy.model_copy(update={"tables": {name: table}})
    stable = [f"c{table.domain.names.index(one)}" for one in table.data.stable]
    bounded = days is not None and table.privacy_unit.column and table.privacy_unit.per is None
    with opened(alone, source) as found:
        columns = checked_columns(alone, found)
        own = columns[name]
        kind = unit_kind(table, own) if bounded or stable else None
        if any(one.unit_kind != kind for one in before):
            raise SourceError(
                f"tables.{name}.privacy_unit.column: its type has changed since the last version"
                " was published, and its units could not be found again",
                hint="Cast it to the former type in the source: in its file, or in a DuckDB file"
                " by a view in place of the table, under its name."
                if bounded
                else "Cast it to the former type in a SELECT given as the table's from, and carry"
                " the ledger over: tallyveil migrate POLICY.",
            )
        found.begin()
        with counted_rows(table, found, own, False) as every:
            rows = every if days is None else settled(table, own, every, days.first, days.last)
            with _counted_before(rows, before if bounded else ()) as kept_before:
                coded, parameters = coded_rows(table, own, rows, kept_before)
                if table.privacy_unit.column is not None:
                    parameters["key"] = key
                kept: tuple[CodeArray, ...] = ()
                if bounded or stable:
                    executed(rows.connection, f"CREATE TEMP TABLE {_KEPT} AS {coded}", parameters)
                    coded, parameters = f"FROM {_KEPT}", {"key": key}
                try:
                    if stable:
                        kept = _steadied(table, own, rows, stable, before, key)
                    counting = by_cells(table, own, rows, coded)
                    counts = executed(rows.connection, counting, parameters).fetchnumpy()
                    if bounded:
                        kept = _kept(table, own, rows, key)
                finally:
                    rows.connection.execute(f"DROP TABLE IF EXISTS {_KEPT}")
    domain = cells_read(table, columns)
    codes = tuple(np.asarray(counts[f"c{axis}"]) for axis in range(len(domain.attributes)))
    units = np.asarray(counts["units"], dtype=np.int64) if "units" in counts else None
    truncates = tuple(attribute.truncates for attribute in domain.attributes)
    members: tuple[CodeArray, ...] = ()
    if "unit" in counts:
        each = [np.asarray(own, dtype=np.int64) for own in counts["unit"]]
        lengths = np.array([len(own) for own in each], dtype=np.int64)
        members = lengths, _joined(each)
    return Slice(
        codes, np.asarray(counts["n"], dtype=np.int64), units, kept, truncates, members, kind
    )


def recoded(own: Slice, codes: Sequence[IntArray], axes: Sequence[int]) -> Slice:
    """The slice with other ``codes`` of its cells, without those of which one is −1; axis i of it
    was the axis ``axes[i]``. Several of its cells may have the same codes then."""
    counted = np.ones(len(own.counts), dtype=np.bool_)
    for each in codes:
        counted &= each >= 0
    members = own.members
    if members:
        lengths, numbers = members
        members = lengths[counted], numbers[np.repeat(counted, lengths)]
    return own._replace(
        codes=tuple(each[counted] for each in codes),
        counts=own.counts[counted],
        units=None if own.units is None else own.units[counted],
        truncates=tuple(own.truncates[axis] for axis in axes),
        members=members,
    )


def _kept(
    table: Table, columns: Mapping[str, str], rows: Rows, key: bytes
) -> tuple[CodeArray, ...]:
    upper, lower = unit_hash(columns[(table.privacy_unit.column or "").lower()])
    sql = f"SELECT {upper} AS upper, {lower} AS lower, count(*) AS n FROM {_KEPT} GROUP BY ALL"
    found = executed(rows.connection, sql, {"key": key}).fetchnumpy()
    return tuple(np.asarray(found[name]) for name in ("upper", "lower", "n"))


def _steadied(
    table: Table,
    columns: Mapping[str, str],
    rows: Rows,
    stable: Sequence[str],
    before: Sequence[Slice],
    key: bytes,
) -> tuple[CodeArray, ...]:
    """Give the kept rows of each unit the values of the ``stable`` cells with which it was first
    counted; in a new unit that differs in them, those of the least cells. Return these of all units
    ever counted, after the halves of their hashes."""
    upper, lower = unit_hash(columns[(table.privacy_unit.column or "").lower()])
    names, cells = ["upper", "lower", *stable], ", ".join(stable)
    known = list(before[0].kept) if before else [np.zeros(0, dtype=np.uint64)] * 2
    known += [np.zeros(0, dtype=np.int64)] * (len(names) - len(known))
    rows.connection.register(_BEFORE, pa.table(known, names))
    counted = " AND ".join(f"k.{cell} IS NOT NULL" for cell in stable)
    first = f"row_number() OVER (PARTITION BY upper, lower ORDER BY {cells}) = 1"
    named = f"SELECT *, {upper} AS upper, {lower} AS lower FROM {_KEPT}"
    try:
        named = f"CREATE OR REPLACE TEMP TABLE {_KEPT} AS {named}"
        executed(rows.connection, named, {"key": key})
        rows.connection.execute(
            f"CREATE TEMP TABLE {_STEADY} AS FROM {_BEFORE} UNION ALL"
            f" SELECT upper, lower, {cells} FROM {_KEPT} AS k ANTI JOIN {_BEFORE}"
            f" USING (upper, lower) WHERE {counted} QUALIFY {first}"
        )
        own = ", ".join(f"CASE WHEN {counted} THEN s.{cell} END AS {cell}" for cell in stable)
        rows.connection.execute(
            f"CREATE OR REPLACE TEMP TABLE {_KEPT} AS SELECT k.* REPLACE ({own}) FROM {_KEPT} AS k"
            f" LEFT JOIN {_STEADY} AS s USING (upper, lower)"
        )
        found = executed(rows.connection, f"FROM {_STEADY}").fetchnumpy()
        return tuple(np.asarray(found[name]) for name in names)
    finally:
        rows.connection.unregister(_BEFORE)
        rows.connection.execute(f"DROP TABLE IF EXISTS {_STEADY}")


@contextmanager
def _counted_before(rows: Rows, before: Sequence[Slice]) -> Iterator[str | None]:
    """A table of how many rows of each unit earlier slices have; None if there is none."""
    if not before:
        yield None
        return
    halves = [np.concatenate([one.kept[n] for one in before]) for n in range(3)]
    each = pa.table(halves, ["upper", "lower", "n"])
    rows.connection.register(f"{_BEFORE}_each", each)
    rows.connection.execute(
        f"CREATE TEMP TABLE {_BEFORE} AS SELECT upper, lower, sum(n) AS n FROM {_BEFORE}_each"
        " GROUP BY ALL"
    )
    try:
        yield _BEFORE
    finally:
        rows.connection.unregister(f"{_BEFORE}_each")
        rows.connection.execute(f"DROP TABLE {_BEFORE}")


def cube_of(table: Table, slices: Sequence[Slice], earlier: Cube | None = None) -> Cube:
    """The counts of all days of the slices, and of an ``earlier`` cube of other days."""
    before = None if earlier is None else earlier._counts
    domain = table.cells if earlier is None else earlier.domain
    if slices:
        domain = with_truncates(table.cells, slices[-1].truncates)
    axes = range(len(domain.attributes))
    codes = tuple(_joined([one.codes[axis] for one in slices]) for axis in axes)
    counts = _joined([one.counts for one in slices]).astype(np.int64)
    units = [one.units for one in slices if one.units is not None]
    members = None
    if not table.privacy_unit.alone:
        start = before.number if before else 0
        lengths = _joined([one.members[0] for one in slices if one.members])
        cells = np.repeat(np.arange(start, start + len(lengths)), lengths)
        numbers = _joined([one.members[1] for one in slices if one.members])
        known = before.members if before and before.members else Members.of_cells([])
        members = known.joined(numbers.astype(np.int64), cells)
    joined = _joined(units).astype(np.int64) if units else None
    return Cube(domain, codes, counts, joined, members, earlier)


def _joined(arrays: Sequence[CodeArray]) -> CodeArray:
    return np.concatenate(arrays) if arrays else np.zeros(0, dtype=np.int64)


def write_slice(files: SealedFiles, name: str, about: Mapping[str, Any], own: Slice) -> None:
    """Raises OutputError."""
    units = () if own.units is None else (own.units,)
    sizes = {"axes": len(own.codes), "kept": len(own.kept), "members": len(own.members)}
    more = {"truncates": own.truncates, "unit_kind": own.unit_kind, "total": own.total}
    header = {**about, **more, **sizes}
    files.write(name, header, [own.counts, *own.codes, *units, *own.kept, *own.members])


def read_slice(files: SealedFiles, name: str, about: Mapping[str, Any]) -> Slice | None:
    """The slice that was kept under this name and ``about`` this; None if there is none.

    Raises SourceError.
    """
    found = files.read(name)
    if found is None or any(found[0].get(key) != value for key, value in about.items()):
        return None
    header, (counts, *arrays) = found
    codes, arrays = tuple(arrays[: header["axes"]]), arrays[header["axes"] :]
    held = len(arrays) - header["members"]
    kept, members = tuple(arrays[held - header["kept"] : held]), tuple(arrays[held:])
    units = arrays[0].astype(np.int64) if len(arrays) > len(kept) + len(members) else None
    return Slice(
        codes,
        counts.astype(np.int64),
        units,
        kept,
        tuple(header["truncates"]),
        members,
        header["unit_kind"],
        header.get("total", int(counts.sum())),
    )
