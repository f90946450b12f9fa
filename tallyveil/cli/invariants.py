"""What the invariants of a policy give away, for `tallyveil check`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import pyarrow as pa

from tallyveil.accountant import Accountant, Ledger
from tallyveil.cube import Cube
from tallyveil.gate.declaring import declared_invariants
from tallyveil.gate.gate import accounts
from tallyveil.gate.guarantee import guarantee
from tallyveil.gate.publishing import Published, check_ledger, publish, unpublished
from tallyveil.gate.relations import RELATIONS
from tallyveil.invariants import Exact
from tallyveil.policy import Policy
from tallyveil.rewriter import PublicDatabase, Rewriter

__all__ = ["Examined", "as_json", "examined", "said"]

_LISTED = 20


class Examined(NamedTuple):
    """What would be published of a table, and which invariants the ledger does not know yet."""

    published: Published
    new: Sequence[str]


def examined(
    policy: Policy, cubes: Mapping[str, Cube], public: Mapping[str, pa.Table]
) -> dict[str, Examined]:
    """By table; nothing is written down.

    Raises PolicyError with every mistake, and LedgerMismatch if the ledger knows of others.
    """
    domains = {name: cube.domain for name, cube in cubes.items()}
    with closing(PublicDatabase(list(domains.values()), public)) as database:
        columns = {name: database.columns(name) for name in public}
        rewriter = Rewriter(domains, RELATIONS, columns, policy.views)
        with closing(database.cursor()) as cursor:
            declared = declared_invariants(policy, cubes, public, rewriter, cursor)
    new = {table: list(one.counts) for table, one in declared.items()}
    if policy.ledger.exists():
        with closing(Ledger(policy.ledger, create=False)) as ledger:
            for table in policy.tables:
                check_ledger(ledger, table, declared.get(table))
            new = {table: unpublished(ledger, one) for table, one in declared.items()}
    with closing(Ledger(":memory:")) as nothing:
        found = publish(policy, declared, Accountant(nothing, accounts(policy)), nothing)
    return {table: Examined(one, new[table]) for table, one in found.items()}


def said(policy: Policy, tables: Mapping[str, Examined]) -> Iterator[str]:
    """The lines of `tallyveil check`."""
    held = accounts(policy)
    for name, (one, new) in tables.items():
        found = one.disclosure
        yield (
            f"invariants of {name}: of rank {found.rank:,}, of {found.cells:,} cells;"
            f" {len(found.counts):,} counts are known exactly"
        )
        bounded = [count for count in found.counts if count.bounded]
        yield from map(_line, [count for count in found.counts if not count.bounded][:_LISTED])
        if bounded:
            yield f"  {len(bounded):,} of them since counts are 0 or more"
            yield from map(_line, bounded[:_LISTED])
        if found.unprotected:
            yield (
                f"  {found.unprotected:,} cells are known one by one: the records in them have no"
                " protection"
            )
        if not found.whole:
            yield "  there are too many cells to look at each: more counts may be known"
        for source in new:
            yield f"  not published yet; once it is served it cannot be taken back: {source}"
        yield f"  guaranteed: {guarantee(policy.tables[name], held[name])}"


def _line(count: Exact) -> str:
    return f"    {count.name}: {count.value:,}"


def as_json(tables: Mapping[str, Examined]) -> dict[str, Any]:
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
        for name, (one, _) in tables.items()
    }
