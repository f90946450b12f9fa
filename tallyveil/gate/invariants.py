"""The counts that a policy publishes exactly: planned, looked at, counted, and said to be known.

They are counted after the ledger knows them, and published after nothing is found wrong: none
gives everything away, contradicts what is public or was published before, or pins a small count
that the custodian has not acknowledged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from tallyveil.accountant import PUBLISHED, Accountant, Ledger, invariants_of
from tallyveil.cube import Cube
from tallyveil.errors import LedgerMismatch, PolicyError, StatementError
from tallyveil.events import report
from tallyveil.invariants import Disclosure, Span, disclosure, row_names
from tallyveil.mechanisms import published
from tallyveil.policy import Invariant, Policy, Table
from tallyveil.rewriter import Column, Cursor, Plan, Rewriter, Workload

__all__ = [
    "SMALL",
    "Declared",
    "Published",
    "check_ledger",
    "declared_invariants",
    "publish",
    "unpublished",
]

SMALL: Final = 10
"""Counts of fewer records, but some, are small."""

_LISTED: Final = 20
_ACKNOWLEDGED: Final = 1_000  # that are listed at once


@dataclass(frozen=True, eq=False)
class Declared:
    """What a policy declares of a table: ``parts[i]`` are the counts of ``invariants[i]``, with
    ``given[i]`` their values where a public table has them. All of them make the span."""

    table: Table
    cube: Cube
    invariants: tuple[Invariant, ...]
    parts: tuple[Workload, ...]
    given: tuple[tuple[int, ...] | None, ...]
    span: Span

    @property
    def counts(self) -> dict[str, Workload]:
        """By where they come from."""
        found = zip(self.invariants, self.parts, strict=True)
        return {invariant.source: workload for invariant, workload in found}


class ExactRow(NamedTuple):
    """A declared row: where it is from, what it counts, and its value in records."""

    source: str
    counted: str
    value: Fraction


@dataclass(frozen=True, eq=False)
class Published:
    """With ``values``, one for each row of the span, and what follows from them."""

    declared: Declared
    values: tuple[int, ...]
    disclosure: Disclosure

    @cached_property
    def rows(self) -> tuple[ExactRow, ...]:
        """Each as the policy declares it."""
        found, values = [], iter(self.values)
        for invariant, workload in zip(self.declared.invariants, self.declared.parts, strict=True):
            for column in workload.columns:
                for name in row_names(column, self.declared.cube.domain):
                    value = column.multiplier * next(values)
                    found.append(ExactRow(invariant.source, name, value))
        return tuple(found)

    @property
    def total(self) -> int | None:
        """The number of records, if it follows."""
        (one,) = self.declared.span.combinations(Column())
        return None if one is None else one.of(self.values)


def declared_invariants(
    policy: Policy,
    cubes: Mapping[str, Cube],
    public: Mapping[str, pa.Table],
    rewriter: Rewriter,
    cursor: Cursor,
) -> dict[str, Declared]:
    """Of each table that has any. It looks at public facts alone.

    Raises PolicyError with every mistake.
    """
    found, mistakes = {}, list[str]()
    for name, table in policy.tables.items():
        if table.exact:
            try:
                found[name] = _declared(table, cubes[name], public, rewriter, cursor)
            except PolicyError as error:
                mistakes += error.mistakes
    _refuse(policy, mistakes)
    return found


def publish(
    policy: Policy, declared: Mapping[str, Declared], accountant: Accountant, ledger: Ledger
) -> dict[str, Published]:
    """Count them and look at what they say; then they are known for good.

    Raises PolicyError with every mistake, and LedgerMismatch where others were published before.
    """
    for table in policy.tables:
        check_ledger(ledger, table, declared.get(table))
    found, mistakes = {}, list[str]()
    for table, one in declared.items():
        receipts = accountant.declare_exact(table, one.counts)
        counted = [
            published(one.cube.answer(workload), receipt)
            for workload, receipt in zip(one.counts.values(), receipts, strict=True)
        ]
        parts = dict(zip(one.counts, counted, strict=True))
        own = [parts[invariant.source] for invariant in one.invariants]
        values = tuple(v for columns in own for column in columns for v in column)
        found[table] = Published(one, values, disclosure(one.span, values, one.cube.domain))
        mistakes += _contradictions(one, own)
        mistakes += _unacknowledged(found[table])
    _refuse(policy, mistakes)
    for table, one in declared.items():
        new = unpublished(ledger, one)
        accountant.publish_exact(table, one.counts)
        for sql in new:
            report("invariant published", table=table, statement=sql)
    return found


def unpublished(ledger: Ledger, declared: Declared) -> list[str]:
    """Where the counts are from that the ledger does not know as published."""
    table = declared.table.name
    known = {Workload(table, columns).key for _, columns in invariants_of(ledger, table, PUBLISHED)}
    return [source for source, own in declared.counts.items() if own.key not in known]


def check_ledger(ledger: Ledger, table: str, declared: Declared | None) -> None:
    """Raises LedgerMismatch if something was published that no longer follows from what the policy
    declares."""
    for sql, columns in invariants_of(ledger, table, PUBLISHED):
        for column in columns:
            if declared is None or None in declared.span.combinations(column):
                raise LedgerMismatch(
                    f'the policy no longer declares an invariant of table "{table}" that was'
                    " published",
                    detail=f"What was published is known for good, and cannot be taken back: {sql}",
                    hint=f"Put it back: [[tables.{table}.invariants]] with sql = '{sql}', or where"
                    " it came from.",
                )


def _refuse(policy: Policy, mistakes: Sequence[str]) -> None:
    if mistakes:
        count = "a mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
        where = "the policy" if policy.path is None else f"the policy {policy.path}"
        raise PolicyError(f"{where} has {count}", mistakes)


def _declared(
    table: Table,
    cube: Cube,
    public: Mapping[str, pa.Table],
    rewriter: Rewriter,
    cursor: Cursor,
) -> Declared:
    parts: list[Workload] = []
    given: list[tuple[int, ...] | None] = []
    mistakes: list[str] = []
    implied = sum(one.implied for one in table.exact)
    for number, invariant in enumerate(table.exact):
        key = f"tables.{table.name}.invariants[{number - implied}]"
        try:
            workload, values = _planned(table, invariant, public, rewriter, cursor, key)
        except StatementError as error:
            mistakes.append(_told(key, invariant, error))
        except PolicyError as error:
            mistakes += error.mistakes
        else:
            parts.append(workload)
            given.append(values)
    if mistakes:
        raise PolicyError("invariants", mistakes)
    sizes = {attribute.name: attribute.size for attribute in cube.domain.attributes}
    key = f"tables.{table.name}.invariants"
    try:
        span = Span([column for workload in parts for column in workload.columns], sizes)
    except StatementError as error:
        raise PolicyError("invariants", [f"{key}: {error.message}; {error.hint}"]) from error
    if table.invariants and span.rank >= cube.domain.size:
        mistakes.append(
            f"{key}: expected fewer: they determine all {cube.domain.size:,} cells, so that"
            " everything would be exact and nothing protected"
        )
    if table.neighbours == "add_remove" and span.holds_total:
        mistakes.append(
            f'{key}: expected neighbours = "replace": they determine the number of records, and no'
            ' two tables that are neighbours under "add_remove" have the same'
        )
    if mistakes:
        raise PolicyError("invariants", mistakes)
    return Declared(table, cube, table.exact, tuple(parts), tuple(given), span)


def _planned(
    table: Table,
    invariant: Invariant,
    public: Mapping[str, pa.Table],
    rewriter: Rewriter,
    cursor: Cursor,
    key: str,
) -> tuple[Workload, tuple[int, ...] | None]:
    """The counts of an invariant, and their values where these are given."""
    if invariant.from_public is not None:
        return _from_public(table, invariant.from_public, public, rewriter, cursor, key)
    plan = rewriter.exact_counts(invariant.sql or "", cursor)
    if set(plan.workloads) != {table.name}:
        others = ", ".join(plan.workloads) or "no protected table"
        raise PolicyError(
            "invariants", [f"{key}.sql: expected counts of {table.name}; it counts {others}"]
        )
    return plan.workloads[table.name], None


def _from_public(
    table: Table,
    where: tuple[str, str],
    public: Mapping[str, pa.Table],
    rewriter: Rewriter,
    cursor: Cursor,
    key: str,
) -> tuple[Workload, tuple[int, ...]]:
    """The counts of the groups that a public table has a row for, with their values."""
    relation, column = public[where[0]], where[1]
    by = [name for name in relation.column_names if name in table.domain and name != column]
    if column not in relation.column_names:
        raise _wrong(key, f"expected a column of {where[0]}; {column} is none")
    given = dict[tuple[Any, ...], int]()
    for row in relation.select([*by, column]).to_pylist():
        group, value = tuple(row[name] for name in by), row[column]
        if not isinstance(value, int) or value < 0:
            raise _wrong(key, f"expected whole numbers from 0 on; a row of {where[0]} has {value}")
        if group in given:
            what = f"two rows with the same {', '.join(by)}" if by else "more than one row"
            raise _wrong(key, f"expected a row for each group; {where[0]} has {what}")
        given[group] = value
    keys = ", ".join(f'"{name}"' for name in by)
    grouped = f"SELECT {keys}, count(*) FROM {table.name} GROUP BY {keys}"
    plan = rewriter.exact_counts(grouped if by else f"SELECT count(*) FROM {table.name}", cursor)
    return _matched(plan, table, given, where[0], key)


def _matched(
    plan: Plan, table: Table, given: Mapping[tuple[Any, ...], int], relation: str, key: str
) -> tuple[Workload, tuple[int, ...]]:
    """The rows of the groups that are given."""
    (noisy,) = plan.noisy
    (output,) = noisy.outputs
    groups = list(zip(*(k.to_pylist() for k in noisy.keys.columns), strict=True)) or [()]
    rows = range(noisy.height) if output.rows is None else output.rows.tolist()
    values = {row: given[group] for group, row in zip(groups, rows, strict=True) if group in given}
    unknown = given.keys() - set(groups)
    if unknown:
        raise _wrong(
            key,
            f"expected groups of the table's attributes; {relation} has {len(unknown):,} others,"
            f" such as {', '.join(map(str, min(unknown, key=repr)))}",
        )
    column = plan.workloads[table.name].columns[output.column]
    chosen = sorted(values)
    part = column.take(np.array(chosen, dtype=np.int64))
    return Workload(table.name, (part,)), tuple(values[row] for row in chosen)


def _wrong(key: str, what: str) -> PolicyError:
    return PolicyError("invariants", [f"{key}.from_public: {what}"])


def _told(key: str, invariant: Invariant, error: StatementError) -> str:
    where = "from_public" if invariant.sql is None else "sql"
    place = f", character {error.position}" if error.position is not None else ""
    hint = f"; {error.hint}" if error.hint else ""
    return f"{key}.{where} = {invariant.source!r}{place}: {error.message}{hint}"


def _contradictions(declared: Declared, counted: Sequence[Sequence[Sequence[int]]]) -> list[str]:
    """Where the table holds others than a public table says: for the custodian alone, who may see
    which."""
    found = []
    parts = zip(declared.invariants, declared.parts, declared.given, counted, strict=True)
    for invariant, workload, given, own in parts:
        if given is None or tuple(own[0]) == given:
            continue
        names = row_names(workload.columns[0], declared.cube.domain)
        off = [n for n, a, b in zip(names, own[0], given, strict=True) if a != b]
        found.append(
            f"tables.{declared.table.name}.invariants from {invariant.source}: expected the counts"
            f" of the table; {len(off):,} differ: {_listed(off)}"
        )
    return found


def _unacknowledged(one: Published) -> list[str]:
    """Small counts that would be known, and that the policy does not name."""
    table = one.declared.table
    named = {name for invariant in table.invariants for name in invariant.acknowledge}
    small = [count.name for count in one.disclosure.small(SMALL) if count.name not in named]
    if not small or not table.invariants:
        return []
    listed = json.dumps(small[:_ACKNOWLEDGED], ensure_ascii=False)
    return [
        f"tables.{table.name}.invariants: {len(small):,} counts of fewer than {SMALL} records would"
        " be exact; expected an invariant that does not give them away, or in one of them"
        f" acknowledge = {listed}"
    ]


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _LISTED
    return "; ".join(names[:_LISTED]) + (f"; and {more:,} more" if more > 0 else "")
