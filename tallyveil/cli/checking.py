"""`tallyveil check`: what a policy protects, what its invariants give away, or what is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from tallyveil.accountant import Accountant, Ledger, check_data, check_tables
from tallyveil.cli.text import Said
from tallyveil.cube import (
    Cube,
    as_read,
    check_files,
    check_public,
    load_cubes,
    load_public,
    relations_read,
)
from tallyveil.gate.declaring import declared_invariants
from tallyveil.gate.gate import accounts
from tallyveil.gate.guarantee import guarantees
from tallyveil.gate.policy_check import check_mechanisms, check_views
from tallyveil.gate.publishing import Published, check_ledger, publish, unpublished
from tallyveil.gate.relations import RELATIONS
from tallyveil.invariants import Exact
from tallyveil.policy import Policy, load_policy, summary
from tallyveil.rewriter import PublicDatabase, Rewriter

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
        cubes = load_cubes(policy)
        policy = as_read(policy, cubes)
        public = load_public(policy)
        _compare(policy, cubes)
        exact = _examined(policy, cubes, public)
    lines = [*summary(policy), *_said(policy, exact)]
    found = []
    if source:
        found.append("The source can be read, and has every column the policy names.")
    if source and policy.public:
        found.append("The public tables can be read.")
    if source and policy.ledger.exists():
        found.append("The ledger belongs to these tables and this data.")
    return Said({"summary": lines, "invariants": _as_json(exact)}, [*lines, *found])


def _compare(policy: Policy, cubes: Mapping[str, Cube]) -> None:
    """Raises LedgerMismatch if there is a ledger, and it belongs to other tables or other data."""
    if not policy.ledger.exists():
        return
    with closing(Ledger(policy.ledger, create=False)) as ledger:
        with ledger.reading():
            check_tables(ledger, accounts(policy, relations_read(policy)))
        for name, cube in cubes.items():
            check_data(ledger, name, cube.digest)


class _Examined(NamedTuple):
    """What would be published of a table, and which invariants the ledger does not know yet."""

    published: Published
    new: Sequence[str]


def _examined(
    policy: Policy, cubes: Mapping[str, Cube], public: Mapping[str, pa.Table]
) -> dict[str, _Examined]:
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
    return {table: _Examined(one, new[table]) for table, one in found.items()}


def _said(policy: Policy, tables: Mapping[str, _Examined]) -> Iterator[str]:
    """The lines of `tallyveil check`."""
    held = guarantees(policy, accounts(policy, relations_read(policy))) if tables else {}
    for name, (one, new) in tables.items():
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
        yield f"  guaranteed: {held[name].sentence}"


def _listed(counts: Sequence[Exact]) -> Iterator[str]:
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
        for name, (one, _) in tables.items()
    }
