"""The counts that a policy publishes exactly: checked, counted, and recorded as published.

They are counted after the ledger has recorded them, and published after all checks: they must not
determine everything, contradict what is public or was published before, or determine a small count
that the custodian has not acknowledged.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NamedTuple

from tallyveil.accountant import PUBLISHED, Accountant, LedgerStore, invariants_of
from tallyveil.cache import cached_property
from tallyveil.errors import LedgerMismatch
from tallyveil.events import report
from tallyveil.gate.declared.declaring import Declared, refuse
from tallyveil.invariants import Disclosure, disclosure, row_names
from tallyveil.mechanisms.constrained.joint_release import published
from tallyveil.policy import Policy
from tallyveil.rewriter import Column, Workload

__all__ = ["Published", "check_ledger", "publish", "unpublished"]

SMALL: Final = 10
"""Counts of fewer records than this, and at least one, are small."""

_LISTED: Final = 20  # names in a message
_ACKNOWLEDGED: Final = 1_000  # names to acknowledge in a message


class ExactRow(NamedTuple):
    """A declared row: its source, what it counts, and its value in records."""

    source: str
    counted: str
    value: Fraction


@dataclass(frozen=True, eq=False)
class Published:
    """Declared counts with their ``values``, one for each row of the span, and what follows."""

    declared: Declared
    values: tuple[int, ...]
    disclosure: Disclosure

    @cached_property
    def rows(self) -> tuple[ExactRow, ...]:
        """The rows as the policy declares them."""
        found, values = [], iter(self.values)
        for invariant, workload in zip(self.declared.invariants, self.declared.parts, strict=True):
            for column in workload.columns:
                for name in row_names(column, self.declared.cube.domain):
                    value = column.multiplier * next(values)
                    found.append(ExactRow(invariant.source, name, value))
        return tuple(found)

    @property
    def sources(self) -> list[str]:
        """The source of each row of the span."""
        parts = zip(self.declared.invariants, self.declared.parts, strict=True)
        columns = ((one.source, column) for one, own in parts for column in own.columns)
        return [source for source, column in columns for _ in range(column.height)]

    @property
    def total(self) -> int | None:
        """The number of records, if the counts determine it."""
        (one,) = self.declared.span.combinations(Column())
        return None if one is None else one.of(self.values)


def publish(
    policy: Policy, declared: Mapping[str, Declared], accountant: Accountant, ledger: LedgerStore
) -> dict[str, Published]:
    """Count what is declared, check it, and publish it, which is for good.

    Raises PolicyError with every mistake, and LedgerMismatch as `check_ledger`.
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
    refuse(policy, mistakes)
    for table, one in declared.items():
        new = unpublished(ledger, one)
        accountant.publish_exact(table, one.counts)
        for sql in new:
            report("invariant published", table=table, statement=sql)
    return found


def unpublished(ledger: LedgerStore, declared: Declared) -> list[str]:
    """The sources of the counts that the ledger does not have as published."""
    table = declared.table.name
    known = {Workload(table, columns).key for _, columns in invariants_of(ledger, table, PUBLISHED)}
    return [source for source, own in declared.counts.items() if own.key not in known]


def check_ledger(ledger: LedgerStore, table: str, declared: Declared | None) -> None:
    """Raise LedgerMismatch if something was published that does not follow from what the policy
    declares."""
    for sql, columns in invariants_of(ledger, table, PUBLISHED):
        for column in columns:
            if declared is None or None in declared.span.combinations(column):
                raise LedgerMismatch(
                    f'the policy no longer declares an invariant of table "{table}" that was'
                    " published",
                    detail=f"What was published is known for good, and cannot be taken back: {sql}",
                    hint=f"Put it back: [[tables.{table}.invariants]] with sql = '{sql}', or with"
                    " the from_public that it came from.",
                )


def _contradictions(
    declared: Declared, counted: Sequence[Sequence[Sequence[int]]]
) -> Iterator[str]:
    """The counts in which the table differs from a public table: for the custodian alone, who may
    see which."""
    parts = zip(declared.invariants, declared.parts, declared.given, counted, strict=True)
    for invariant, workload, given, own in parts:
        if given is None or tuple(own[0]) == given:
            continue
        names = row_names(workload.columns[0], declared.cube.domain)
        off = [n for n, a, b in zip(names, own[0], given, strict=True) if a != b]
        yield (
            f"tables.{declared.table.name}.invariants from {invariant.source}: expected the counts"
            f" of the table; {len(off):,} differ: {_listed(off)}"
        )


def _unacknowledged(one: Published) -> Iterator[str]:
    """Small counts that would become known and are not acknowledged, and acknowledged names that no
    exact count has, if all of these are known. A name of a large count is allowed: it may be needed
    when the data change."""
    table, disclosed = one.declared.table, one.disclosure
    named = dict.fromkeys(n for invariant in table.invariants for n in invariant.acknowledge)
    small = [count.name for count in disclosed.small(SMALL) if count.name not in named]
    if small and table.invariants:
        listed = json.dumps(small[:_ACKNOWLEDGED], ensure_ascii=False)
        yield (
            f"tables.{table.name}.invariants: {len(small):,} counts of fewer than {SMALL} records"
            " would be exact; expected invariants that do not determine them, or in one of these"
            f" acknowledge = {listed}"
        )
    counts = {count.name for count in disclosed.counts}
    wrong = [name for name in named if name not in counts]
    if wrong and disclosed.whole:
        yield (
            f"tables.{table.name}.invariants: acknowledge names no exact count: {_listed(wrong)};"
            " expected names as tallyveil check writes them"
        )


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _LISTED
    return "; ".join(names[:_LISTED]) + (f"; and {more:,} more" if more > 0 else "")
