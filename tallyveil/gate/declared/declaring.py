"""Plans the counts that a policy declares to be exact, as statements are planned. Reads no data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tallyveil.cube import Cube
from tallyveil.errors import PolicyError, StatementError
from tallyveil.invariants import Span
from tallyveil.policy import Invariant, Policy, Table
from tallyveil.policy.mistakes import refusal
from tallyveil.rewriter import Plan, PublicCursor, Rewriter, Workload

__all__ = ["Declared", "declared_invariants", "refuse"]


@dataclass(frozen=True, eq=False)
class Declared:
    """What a policy declares exact of a table: ``parts[i]`` are the counts of ``invariants[i]``,
    ``given[i]`` their values if a public table has them, and ``span`` is that of all counts."""

    table: Table
    cube: Cube
    invariants: tuple[Invariant, ...]
    parts: tuple[Workload, ...]
    given: tuple[tuple[int, ...] | None, ...]
    span: Span

    @property
    def counts(self) -> dict[str, Workload]:
        """The counts by their source."""
        found = zip(self.invariants, self.parts, strict=True)
        return {invariant.source: workload for invariant, workload in found}


def declared_invariants(
    policy: Policy,
    cubes: Mapping[str, Cube],
    public: Mapping[str, pa.Table],
    rewriter: Rewriter,
    cursor: PublicCursor,
) -> dict[str, Declared]:
    """What each table that has invariants declares, from public facts alone.

    Raises PolicyError with every mistake.
    """
    planner = _Planner(public, rewriter, cursor)
    found, mistakes = {}, list[str]()
    for name, table in policy.tables.items():
        if table.exact:
            try:
                found[name] = _declared(table, cubes[name], planner)
            except PolicyError as error:
                mistakes += error.mistakes
    refuse(policy, mistakes)
    return found


def refuse(policy: Policy, mistakes: Sequence[str]) -> None:
    """Raise PolicyError if there are any mistakes."""
    if mistakes:
        raise refusal("the policy", policy.path, mistakes)


def _declared(table: Table, cube: Cube, planner: _Planner) -> Declared:
    found, mistakes = list[tuple[Workload, tuple[int, ...] | None]](), list[str]()
    implied = int(table.total_public)
    for number, invariant in enumerate(table.exact):
        key = f"tables.{table.name}.invariants[{number - implied}]"
        try:
            found.append(planner.counts(table, invariant))
        except StatementError as error:
            mistakes.append(_mistake_text(key, invariant, error))
        except _Mistake as error:
            mistakes.append(f"{key}.{_key(invariant)}: {error}")
    _refuse_table(mistakes)
    parts, given = zip(*found, strict=True)
    return Declared(table, cube, table.exact, parts, given, _span(table, cube, parts))


def _span(table: Table, cube: Cube, parts: Sequence[Workload]) -> Span:
    """The span of all counts. Raises PolicyError if they leave nothing to protect, or rule out the
    policy's neighbours."""
    sizes = {attribute.name: attribute.size for attribute in cube.domain.attributes}
    key = f"tables.{table.name}.invariants"
    try:
        span = Span([column for workload in parts for column in workload.columns], sizes)
    except StatementError as error:
        raise PolicyError("invariants", [f"{key}: {error.message}; {error.hint}"]) from error
    mistakes = []
    if table.invariants and span.rank >= cube.domain.size:
        mistakes.append(
            f"{key}: expected fewer: they determine all {cube.domain.size:,} cells, so that"
            " everything would be exact and nothing protected"
        )
    if table.neighbours == "add_remove" and span.holds_total:
        mistakes.append(
            f'{key}: expected neighbours = "replace": they determine the number of records, and'
            ' tables that are neighbours under "add_remove" never have the same number'
        )
    _refuse_table(mistakes)
    return span


def _refuse_table(mistakes: Sequence[str]) -> None:
    if mistakes:
        raise PolicyError("invariants", mistakes)


class _Mistake(Exception):
    """What is wrong with one invariant."""


@dataclass(frozen=True)
class _Planner:
    """Plans invariants; their values may come from the ``public`` tables."""

    public: Mapping[str, pa.Table]
    rewriter: Rewriter
    cursor: PublicCursor

    def counts(self, table: Table, invariant: Invariant) -> tuple[Workload, tuple[int, ...] | None]:
        """The counts of an invariant, and their values if these are given. Raises StatementError
        and _Mistake."""
        if invariant.from_public is not None:
            return self._from_public(table, *invariant.from_public)
        plan = self.rewriter.exact_counts(invariant.sql or "", self.cursor)
        if set(plan.workloads) != {table.name}:
            others = ", ".join(plan.workloads) or "no protected table"
            raise _Mistake(f"expected counts of {table.name}; it counts {others}")
        return plan.workloads[table.name], None

    def _from_public(
        self, table: Table, relation: str, column: str
    ) -> tuple[Workload, tuple[int, ...]]:
        """The counts of the groups that a public table has a row for, with their values."""
        rows = self.public[relation]
        if column not in rows.column_names:
            raise _Mistake(f"expected a column of {relation}; it has no column {column}")
        by = [name for name in rows.column_names if name in table.domain and name != column]
        given = _given(rows, by, relation, column)
        keys = ", ".join(f'"{name}"' for name in by)
        grouped = f"SELECT {keys}, count(*) FROM {table.name} GROUP BY {keys}"
        total = f"SELECT count(*) FROM {table.name}"
        plan = self.rewriter.exact_counts(grouped if by else total, self.cursor)
        return _matched(plan, table, given, relation)


def _given(
    rows: pa.Table, by: Sequence[str], relation: str, column: str
) -> dict[tuple[Any, ...], int]:
    """The value that a public table has for each group."""
    given = dict[tuple[Any, ...], int]()
    for row in rows.select([*by, column]).to_pylist():
        group, value = tuple(row[name] for name in by), row[column]
        if type(value) is not int or value < 0:
            raise _Mistake(f"expected whole numbers from 0 on; a row of {relation} has {value}")
        if group in given:
            what = f"two rows with the same {', '.join(by)}" if by else "more than one row"
            raise _Mistake(f"expected a row for each group; {relation} has {what}")
        given[group] = value
    return given


def _matched(
    plan: Plan, table: Table, given: Mapping[tuple[Any, ...], int], relation: str
) -> tuple[Workload, tuple[int, ...]]:
    """The counts of the given groups, and their values."""
    (noisy,) = plan.noisy
    (output,) = noisy.outputs
    groups = list(zip(*(k.to_pylist() for k in noisy.keys.columns), strict=True)) or [()]
    rows = range(noisy.height) if output.rows is None else output.rows.tolist()
    values = {row: given[group] for group, row in zip(groups, rows, strict=True) if group in given}
    unknown = given.keys() - set(groups)
    if unknown:
        raise _Mistake(
            f"expected groups of the table's attributes; {relation} has others"
            f" ({len(unknown):,}), such as {', '.join(map(str, min(unknown, key=repr)))}"
        )
    column = plan.workloads[table.name].columns[output.column]
    chosen = sorted(values)
    part = column.take(np.array(chosen, dtype=np.int64))
    return Workload(table.name, (part,)), tuple(values[row] for row in chosen)


def _key(invariant: Invariant) -> str:
    return "from_public" if invariant.sql is None else "sql"


def _mistake_text(key: str, invariant: Invariant, error: StatementError) -> str:
    place = f", character {error.position}" if error.position is not None else ""
    hint = f"; {error.hint}" if error.hint else ""
    return f"{key}.{_key(invariant)} = {invariant.source!r}{place}: {error.message}{hint}"
