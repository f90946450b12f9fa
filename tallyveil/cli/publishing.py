"""`tallyveil publish`: the custodian's act by which a version is counted, for good."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from tallyveil.accountant import VersionLog, check_tables
from tallyveil.accountant.store.ledger_copies import witness_of
from tallyveil.arrays import IntArray
from tallyveil.cli.text import Output
from tallyveil.cube import Unsettled, connected, relations_read, unsettled_rows, with_values
from tallyveil.errors import InvalidParameterValue
from tallyveil.gate import Gate
from tallyveil.gate.declared.ledger_witness import check_witness, witness_folder, write_witness
from tallyveil.gate.gate import accounts, ledger_of
from tallyveil.gate.growth.plans import buy_plans, lost_answers
from tallyveil.gate.growth.publisher import Publisher, how_to_extend
from tallyveil.gate.growth.publishing import has_ended, sealed_slices, with_versions
from tallyveil.policy import Policy, Table, load_policy

__all__ = ["publish"]

_CONFIDENTIAL = "Exact numbers, for the custodian alone: they are not protected."

_SHOWN = 5  # lost answers that a line names


def publish(
    path: Path,
    through: str | None,
    *,
    report: bool,
    recount: bool = False,
    tables: Sequence[str] = (),
) -> Iterator[Output]:
    """Publish a version of all tables that have them, or of these ``tables``: of the days through
    ``through``, by default all that are over; or of all rows as they are now. With ``report``, say
    how many records were counted. ``recount`` is as `Publishing.publish` has it.

    Raises InvalidParameterValue for a day that cannot be published, and what `Gate` raises.
    """
    policy = load_policy(path)
    names = _chosen(policy, tables, grown=recount or through is not None)
    day = None if through is None else _day(through)
    if recount and day is not None:
        raise InvalidParameterValue(
            "--recount counts the days that are published", hint="Leave --through out."
        )
    with connected(policy, None) as given, closing(ledger_of(policy)) as ledger:
        policy = with_values(policy, given)
        every = accounts(policy, relations_read(policy, None))
        with ledger.snapshot() as view:
            check_tables(ledger, view, every)
        files = sealed_slices(policy.ledger, ledger.key("cubes"))
        publisher = Publisher.of(policy, ledger, every, VersionLog(ledger), files)
        check_witness(witness_folder(policy), ledger)
        before = {name: publisher.last(name) for name in names}
        now = dt.datetime.now(dt.UTC)
        found = publisher.publish(given, day, now, only=names, recount=recount)
        with ledger.snapshot() as view:
            seen = witness_of(view)
        write_witness(witness_folder(policy), seen)
        for name, version in found.items():
            new = version != before[name]
            ended = not recount and has_ended(policy.tables[name], now)
            document: dict[str, object] = {
                "table": name,
                "version": version.number,
                "through": None if version.through is None else str(version.through),
                "new": new,
                "range_ended": ended,
            }
            done = "; counted once more" if recount else "" if new else "; nothing new to publish"
            lines = [f"{name}: {version.words}{done}"]
            if ended and day is None:
                lines.append(_ended(policy.tables[name]))
            if report:
                last = version.through
                left = None if last is None else unsettled_rows(policy, name, given, last)
                some = (new or recount) and (last is not None or version.replaced)
                counted = publisher.last_slice(name).counts if some else None
                more, exact = _confidential(counted, left)
                document, lines = document | more, [*lines, *exact]
            yield Output(document, lines)
    if any(table.plans for table in policy.tables.values()):
        with closing(Gate(load_policy(path), budgets="recorded")) as gate:
            yield from _bought(gate)


def _ended(table: Table) -> str:
    return (
        f"  Its range of days ended on {table.day_range[1]}: later days are not published."
        f" {how_to_extend(table)}"
    )


def _confidential(
    counted: IntArray | None, left: Unsettled | None
) -> tuple[dict[str, int], list[str]]:
    """Exact numbers of what was ``counted`` for a version, and of what was ``left`` out."""
    document, lines = dict[str, int](), list[str]()
    if counted is not None:
        document["records"] = int(counted.sum())
        lines.append(f"  records that were counted for it: {document['records']:,}")
    if left is not None:
        document |= left._asdict()
        lines.append(
            f"  rows in all that came too late for their day: {left.late:,}; of days that are not"
            f" over: {left.later:,}; without a day of the range: {left.undated:,}"
        )
    return document, [_CONFIDENTIAL, *lines] if lines else []


def _bought(gate: Gate) -> Iterator[Output]:
    """Buy what plans need; what could not be bought, and what was charged and lost."""
    for line in buy_plans(gate):
        yield Output({"not_bought": line}, [line])
    for name, lost in lost_answers(gate).items():
        more = f"; and {len(lost) - _SHOWN:,} more" if len(lost) > _SHOWN else ""
        line = (
            f"{name}: answers that were charged and lost, and are not bought again:"
            f" {len(lost):,} ({'; '.join(lost[:_SHOWN])}{more})"
        )
        yield Output({"table": name, "lost": lost}, [line])


def _chosen(policy: Policy, tables: Sequence[str], *, grown: bool) -> list[str]:
    """The tables to publish: those named, or all with versions; only tables that have ``grown``, if
    so."""
    every = with_versions(policy)
    if not every:
        raise InvalidParameterValue(
            "no table of the policy has versions",
            hint='A table has them with data = { append = "day" }, where day is an attribute, or'
            ' with data = "replace".',
        )
    for name in tables:
        if name not in every:
            raise InvalidParameterValue(f"--table {name}: no table with versions has this name")
    names = list(dict.fromkeys(tables)) or [
        name for name, table in every.items() if table.grows or not grown
    ]
    wrong = [name for name in names if grown and not every[name].grows]
    if wrong or not names:
        raise InvalidParameterValue(
            f"--through and --recount are for tables that grow; {(wrong or [*every])[0]} does not",
            hint="Each version of it has all its rows as they are then.",
        )
    return names


def _day(text: str) -> dt.date:
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        raise InvalidParameterValue(
            f"--through {text}: expected a day, such as 2026-11-20"
        ) from None
