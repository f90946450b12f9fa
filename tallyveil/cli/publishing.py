"""`tallyveil publish`: the custodian's act by which days that are over are counted, for good."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from tallyveil.accountant import VersionLog, check_tables, publish_version
from tallyveil.cli.text import Output
from tallyveil.cube import connected, relations_read, with_values
from tallyveil.errors import InvalidParameterValue
from tallyveil.gate import Gate
from tallyveil.gate.declared.ledger_witness import check_witness
from tallyveil.gate.gate import accounts, ledger_of
from tallyveil.gate.growth.plans import buy_plans
from tallyveil.gate.growth.publishing import Publishing, growing, sealed_slices
from tallyveil.policy import load_policy

__all__ = ["publish"]

_CONFIDENTIAL = "Exact numbers, for the custodian alone: they are not protected."


def publish(
    path: Path, through: str | None, *, report: bool, recount: bool = False
) -> Iterator[Output]:
    """Publish the days through ``through``, by default all that are over. With ``report``, say how
    many records were counted. ``recount`` is as `Publishing.publish` has it.

    Raises InvalidParameterValue for a day that cannot be published, and what `Gate` raises.
    """
    policy = load_policy(path)
    if not growing(policy):
        raise InvalidParameterValue(
            "no table of the policy grows",
            hint='A table grows with data = { append = "day" }, where day is an attribute.',
        )
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
        publishing = Publishing(
            policy,
            sealed_slices(policy.ledger, ledger.key("cubes")),
            ledger.key("rows"),
            VersionLog(ledger).of,
            lambda record: publish_version(ledger, every, record),
        )
        check_witness(policy.cubes or publishing.files.folder, ledger)
        before = {name: publishing.last(name) for name in growing(policy)}
        now = dt.datetime.now(dt.UTC)
        found = publishing.publish(given, day, now, recount=recount)
        for name, version in found.items():
            new = version != before[name]
            done = "; counted once more" if recount else "" if new else "; nothing new to publish"
            line = f"{name}: {version.words}{done}"
            document = {
                "table": name,
                "version": version.number,
                "through": None if version.through is None else str(version.through),
                "new": new,
            }
            lines = [line]
            if report and new and version.through is not None:
                counted = publishing.slices(name, policy.tables[name])[-1].counts.sum()
                document["records"] = int(counted)
                lines += [_CONFIDENTIAL, f"  records that were counted for it: {counted:,}"]
            yield Output(document, lines)
    if any(table.plans for table in policy.tables.values()):
        with closing(Gate(load_policy(path), budgets="recorded")) as gate:
            buy_plans(gate)


def _day(text: str) -> dt.date:
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        raise InvalidParameterValue(
            f"--through {text}: expected a day, such as 2026-11-20"
        ) from None
