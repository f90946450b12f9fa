"""`tallyveil migrate`: what a migration of the ledger does to each table, and doing it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tallyveil.cli.text import Output, up
from tallyveil.cube import with_values
from tallyveil.errors import InvalidParameterValue
from tallyveil.gate.declared.migrating import Migrated, Vouched, migrating
from tallyveil.policy import load_policy

__all__ = ["migrate"]


def migrate(path: Path, same_rows: bool, recoded: Sequence[str], *, yes: bool) -> Output:
    """Return what the migration does, or with ``yes`` has done. It reads the source.

    Raises PolicyError, SourceError, InvalidParameterValue, LedgerError, LedgerMismatch, and
    FeatureNotSupported for a change that cannot be carried over.
    """
    policy = with_values(load_policy(path))
    vouched = Vouched(same_rows, _labels(recoded))
    with migrating(policy, vouched=vouched) as prepared:
        lines = [line for one in prepared.tables for line in _lines(one)]
        document: dict[str, Any] = {"tables": [_document(one) for one in prepared.tables]}
        if not prepared.tables:
            return Output(document, [f"{policy.ledger} belongs to these declarations already."])
        if not yes:
            return Output(document, [*lines, "Nothing was changed. --yes migrates the ledger."])
        kept = prepared.apply()
    done = f"{policy.ledger} is migrated. The former ledger is kept as {kept}: never serve it."
    return Output({**document, "kept": str(kept)}, [*lines, done])


def _labels(recoded: Sequence[str]) -> dict[str, dict[str, dict[str, str]]]:
    found: dict[str, dict[str, dict[str, str]]] = {}
    for text in recoded:
        read = re.fullmatch(r"([^.:]+)\.([^:]+):([^=]*)=(.*)", text, re.DOTALL)
        if read is None:
            raise InvalidParameterValue(
                f'"{text}" names no changed label',
                hint="Write --recoded TABLE.ATTRIBUTE:OLD=NEW, as in person.sex:F=female.",
            )
        table, attribute, old, new = read.groups()
        found.setdefault(table, {}).setdefault(attribute, {})[old] = new
    return found


def _lines(one: Migrated) -> Iterator[str]:
    yield f"{one.table}:"
    yield from (f"  {line}" for line in one.changed)
    for axis in one.axes:
        cells = len(axis.shown or axis.new or axis.old or ())
        if axis.hidden and axis.was != axis.name:
            again = any(other.was is None and other.name == axis.was for other in one.axes)
            is_now = "is another attribute now" if again else "is no attribute any more"
            yield f"  {axis.was} {is_now}; its answers stay, for nobody to ask"
        elif axis.was is None and not any(other.was == axis.name for other in one.axes):
            yield f"  {axis.name} is new"
        elif cells and not axis.hidden:
            yield f"  {axis.name}: the ledger counts {cells:,} joint codes of before and now"
    for name in one.begins:
        yield (
            f"  records that had no cell of {name} before are counted on days that are published"
            " from now on, never on earlier ones, of which what was answered stays known"
        )
    before, after = up(one.before.spent, 9), up(one.after.spent, 9)
    yield f"  spent: {before:g} {one.before.measure} before, {after:g} {one.after.measure} after"
    if one.after.spent > one.after.budget:
        yield "  That is more than the budget: nothing more can be bought."
    if one.folds:
        yield (
            "  The columns that are read are others, so that other rows of a unit may be counted:"
            " what any unit has lost counts for all."
        )
    if one.publishes:
        yield "  A version is published when the policy is opened next, with all rows of then."
    elif one.replaced:
        yield "  The version that is served stays, until you publish the next one."
    if one.retires:
        yield f"  answers that retire: {one.answers:,}, since other rows may count from now on"
    else:
        yield f"  answers that are kept: {one.answers:,}"
    if one.estimates:
        yield f"  records of estimates that retire: {one.estimates:,}; they are estimated anew"


def _document(one: Migrated) -> dict[str, Any]:
    return {
        "table": one.table,
        "changed": list(one.changed),
        "counted_from_now_on": list(one.begins),
        "spent_before": up(one.before.spent, 9),
        "spent_after": up(one.after.spent, 9),
        "unit": one.after.measure,
        "answers": one.answers,
        "retired": one.answers if one.retires else 0,
        "estimates_retired": one.estimates,
    }
