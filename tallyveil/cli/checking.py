"""`tallyveil check`: what a policy protects, what its invariants reveal, or what is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from tallyveil.accountant import Ledger, check_data, check_tables
from tallyveil.cli.spending import read_accountants
from tallyveil.cli.text import Output
from tallyveil.cube import (
    Undeclared,
    cells_in_use,
    check_files,
    check_public,
    columns_of,
    rows_left_out,
    type_losses,
    typed,
    undeclared,
    unreadable_lines,
    with_values,
)
from tallyveil.gate import Gate
from tallyveil.gate.declared.policy_check import check_mechanisms, check_views
from tallyveil.gate.declared.publishing import Published, check_ledger, unpublished
from tallyveil.invariants import DisclosedCount
from tallyveil.policy import Policy, load_policy, summary
from tallyveil.policy.value_checks import LedgerFile

__all__ = ["check"]

_LISTED = 20
_CONFIDENTIAL = (
    "For you alone: these numbers are exact, and as confidential as the data. A policy that is"
    " changed in view of them is no longer independent of the data, and tells something about it.",
)


def check(path: Path, *, source: bool) -> Output:
    """Return the policy's summary, after a comparison with the types of the source's columns.

    With ``source``, also read the source as `tallyveil serve` does, compare it with the ledger if
    there is one, and report what only the custodian may know.

    Raises PolicyError with every mistake, SourceError with every missing file, every column that is
    missing or cannot be read, or for a public table that cannot be read, and LedgerError.
    """
    policy = load_policy(path)
    check_mechanisms(policy)
    check_files(policy)
    policy = with_values(policy)
    check_views(policy)
    check_public(policy)
    columns = {} if policy.source is None else columns_of(policy)
    losses = [line for name in columns for line in type_losses(policy.tables[name], columns[name])]
    if not source:
        lines = [*summary(typed(policy, columns) if columns else policy), *losses]
        return Output({"summary": lines}, lines)
    with closing(_gate_in_memory(policy)) as gate:
        exact = _examined(gate, policy.ledger)
        sizes = cells_in_use(gate.decision.cubes)
        policy = gate.policy.model_copy(update={"ledger_file": policy.ledger_file})
    left_out, outside = rows_left_out(policy), undeclared(policy)
    skipped = unreadable_lines(policy)
    numbers = [
        *([] if skipped is None else [f"lines that cannot be read: {skipped:,}"]),
        *_left_out(policy, left_out),
        *_undeclared(outside),
        *_sizes(sizes),
    ]
    lines = [*summary(policy), *losses, *_described(exact), *_CONFIDENTIAL, *numbers]
    found = ["The source can be read, and has every column the policy names."]
    if policy.public:
        found.append("The public tables can be read.")
    if policy.ledger.exists():
        found.append("The ledger belongs to these tables and this data.")
    document = {
        "summary": lines,
        "invariants": _as_json(exact),
        "max_rows": {t: {"rows": n, "left_out": lost} for t, (n, lost) in left_out.items()},
        "undeclared": {
            t: {"rows": n, "attributes": {a: one._asdict() for a, one in each.items()}}
            for t, (n, each) in outside.items()
        },
        "unreadable_lines": skipped,
        "in_use": {t: {"cells": cells, "bytes": size} for t, (cells, size) in sizes.items()},
    }
    return Output(document, [*lines, *found])


def _gate_in_memory(policy: Policy) -> Gate:
    """A gate that records nothing, and counts the rows that the ledger's would."""
    secret = None
    if policy.ledger.exists():
        with closing(Ledger(policy.ledger, create=False)) as ledger:
            secret = ledger.secret
    in_memory = {"ledger_file": LedgerFile(Path(":memory:")), "cubes": None}
    return Gate(policy.model_copy(update=in_memory), secret=secret)


def _left_out(policy: Policy, tables: Mapping[str, tuple[int, int]]) -> Iterator[str]:
    """Yield how many rows ``max_rows`` leaves out, which is for the custodian alone."""
    for name, (rows, lost) in tables.items():
        unit = policy.tables[name].privacy_unit
        share = f" ({lost / rows:.1%})" if lost else ""
        yield (
            f"  max_rows of {name}: {lost:,} of {rows:,} rows{share} are left out, since their"
            f" {unit.column} has more than {unit.max_rows}"
        )


def _undeclared(tables: Mapping[str, tuple[int, Mapping[str, Undeclared]]]) -> Iterator[str]:
    """Yield what happens to values that are not declared, which is for the custodian alone."""
    for name, (rows, attributes) in tables.items():
        for attribute, found in attributes.items():
            fates = (
                (found.left_out, "have a value that is not declared, and are left out"),
                (found.other, "have another value"),
                (found.null, "have a value that is not declared, and count as NULL"),
                (found.clamped, "have a value beyond an end, and count as the nearest"),
            )
            for number, fate in fates:
                if number:
                    share = f"{number:,} of {rows:,} rows ({number / rows:.1%})"
                    yield f"  {attribute} of {name}: {share} {fate}"
            if found.unmatched:
                more = len(found.unmatched) - _LISTED
                listed = ", ".join(found.unmatched[:_LISTED]) + (
                    f" and {more:,} more" if more > 0 else ""
                )
                yield f"  {attribute} of {name}: no row has the declared {listed}"


def _sizes(tables: Mapping[str, tuple[int, int]]) -> Iterator[str]:
    """Yield what each table takes in memory."""
    for name, (cells, size) in tables.items():
        yield f"  {name}: {cells:,} cells in use, {max(size / 10**6, 0.1):,.1f} MB of memory"


class _Examined(NamedTuple):
    """The exact counts of a table, the invariants not yet in the ledger, and the guarantee."""

    published: Published
    new: Sequence[str]
    guaranteed: str


def _examined(gate: Gate, path: Path) -> dict[str, _Examined]:
    """Examine each table. ``gate`` has a ledger in memory, so nothing is recorded; the ledger at
    ``path`` is only read, and may be missing.

    Raises LedgerMismatch if this ledger belongs to other tables, data or invariants.
    """
    declared = {table: one.declared for table, one in gate.published.items()}
    new = {table: list(one.counts) for table, one in declared.items()}
    if path.exists():
        with closing(Ledger(path, create=False)) as ledger:
            with ledger.snapshot() as view:
                check_tables(ledger, view, gate.accounts)
            for table, digest in gate.digests.items():
                check_data(ledger, table, digest)
                check_ledger(ledger, table, declared.get(table))
            new = {table: unpublished(ledger, one) for table, one in declared.items()}
    read = gate.policy.model_copy(update={"ledger_file": LedgerFile(path)})
    with read_accountants(read) as accountants:
        return {
            table: _Examined(
                one, new[table], gate.guarantees[table].sentence(accountants[table].balance(table))
            )
            for table, one in gate.published.items()
        }


def _described(tables: Mapping[str, _Examined]) -> Iterator[str]:
    """Yield the lines about each table's invariants."""
    for name, (one, new, guaranteed) in tables.items():
        found = one.disclosure
        yield (
            f"invariants of {name}: rank {found.rank:,} on {found.cells:,} cells; they determine"
            f" {len(found.counts):,} counts exactly"
        )
        bounded = [count for count in found.counts if count.bounded]
        yield from _listed([count for count in found.counts if not count.bounded])
        if bounded:
            yield f"  {len(bounded):,} of them because counts cannot be negative"
            yield from _listed(bounded)
        if found.unprotected:
            yield (
                f"  {found.unprotected:,} cells are known exactly: their records have no protection"
            )
        if not found.whole:
            yield "  there are too many cells to examine each: more counts may be known exactly"
        for source in new:
            yield f"  not published yet; serving publishes it for good: {source}"
        yield f"  guarantee: {guaranteed}"


def _listed(counts: Sequence[DisclosedCount]) -> Iterator[str]:
    for count in counts[:_LISTED]:
        yield f"    {count.name}: {count.value:,}"
    if len(counts) > _LISTED:
        yield f"    and {len(counts) - _LISTED:,} more; --json lists all"


def _as_json(tables: Mapping[str, _Examined]) -> dict[str, Any]:
    """Return all counts that are known exactly, by table."""
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
