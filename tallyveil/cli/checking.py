"""`tallyveil check`: what a policy protects, what its invariants give away, or what is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from tallyveil.accountant import Ledger, check_data, check_tables
from tallyveil.cli.text import Said
from tallyveil.cube import check_files, check_public
from tallyveil.gate import Gate
from tallyveil.gate.declared.policy_check import check_mechanisms, check_views
from tallyveil.gate.declared.publishing import Published, check_ledger, unpublished
from tallyveil.invariants import DisclosedCount
from tallyveil.policy import load_policy, summary

__all__ = ["check"]

_LISTED = 20


def check(path: Path, *, source: bool) -> Said:
    """The policy's summary; with ``source``, after reading the source as serving would, and
    comparing it with the ledger, if there is one.

    Raises PolicyError with every mistake, SourceError with every missing file or for a public table
    that cannot be read, LedgerError.
    """
    policy = load_policy(path)
    check_mechanisms(policy)
    check_views(policy)
    check_files(policy)
    check_public(policy)
    exact: dict[str, _Examined] = {}
    if source:
        with closing(Gate(replace(policy, ledger=Path(":memory:")))) as gate:
            exact = _examined(gate, policy.ledger)
            policy = replace(gate.policy, ledger=policy.ledger)
    lines = [*summary(policy), *_said(exact)]
    found = []
    if source:
        found.append("The source can be read, and has every column the policy names.")
    if source and policy.public:
        found.append("The public tables can be read.")
    if source and policy.ledger.exists():
        found.append("The ledger belongs to these tables and this data.")
    return Said({"summary": lines, "invariants": _as_json(exact)}, [*lines, *found])


class _Examined(NamedTuple):
    """What would be published of a table, which invariants the ledger does not know yet, and what
    is guaranteed."""

    published: Published
    new: Sequence[str]
    guaranteed: str


def _examined(gate: Gate, path: Path) -> dict[str, _Examined]:
    """By table; ``gate`` has a ledger that is not kept, and nothing is written down.

    Raises LedgerMismatch if there is a ledger, and it belongs to other tables, data or invariants.
    """
    declared = {table: one.declared for table, one in gate.published.items()}
    new = {table: list(one.counts) for table, one in declared.items()}
    if path.exists():
        with closing(Ledger(path, create=False)) as ledger:
            with ledger.reading():
                check_tables(ledger, gate.accounts)
            for table, digest in gate.digests.items():
                check_data(ledger, table, digest)
                check_ledger(ledger, table, declared.get(table))
            new = {table: unpublished(ledger, one) for table, one in declared.items()}
    return {
        table: _Examined(one, new[table], gate.guarantees[table].sentence)
        for table, one in gate.published.items()
    }


def _said(tables: Mapping[str, _Examined]) -> Iterator[str]:
    """The lines of `tallyveil check`."""
    for name, (one, new, guaranteed) in tables.items():
        found = one.disclosure
        yield (
            f"invariants of {name}: of rank {found.rank:,}, of {found.cells:,} cells;"
            f" {len(found.counts):,} counts are known exactly"
        )
        bounded = [count for count in found.counts if count.bounded]
        yield from _listed([count for count in found.counts if not count.bounded])
        if bounded:
            yield f"  {len(bounded):,} of them since counts are 0 or more"
            yield from _listed(bounded)
        if found.unprotected:
            yield (
                f"  {found.unprotected:,} cells are known one by one: the records in them have no"
                " protection"
            )
        if not found.whole:
            yield "  there are too many cells to look at each: more counts may be known"
        for source in new:
            yield f"  not published yet; once it is served it cannot be taken back: {source}"
        yield f"  guaranteed: {guaranteed}"


def _listed(counts: Sequence[DisclosedCount]) -> Iterator[str]:
    for count in counts[:_LISTED]:
        yield f"    {count.name}: {count.value:,}"
    if len(counts) > _LISTED:
        yield f"    and {len(counts) - _LISTED:,} more; --json lists all"


def _as_json(tables: Mapping[str, _Examined]) -> dict[str, Any]:
    """All counts that are known, by table."""
    return {
        name: {
            "rank": one.disclosure.rank,
            "cells": one.disclosure.cells,
            "unprotected_cells": one.disclosure.unprotected,
            "all_cells_looked_at": one.disclosure.whole,
            "counts": [
                {"name": c.name, "value": c.value, "cells": c.cells, "from_bounds": c.bounded}
                for c in one.disclosure.counts
            ],
        }
        for name, (one, _, _) in tables.items()
    }
