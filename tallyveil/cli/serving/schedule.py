"""A server publishes at the times that the policy declares, whether anything changed or not."""

from __future__ import annotations

import datetime as dt
import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import duckdb

from tallyveil.errors import TallyveilError
from tallyveil.events import report
from tallyveil.gate import Gate
from tallyveil.gate.growth.editions import Edition
from tallyveil.gate.growth.plans import buy_plans, lost_answers
from tallyveil.gate.growth.publisher import Publisher
from tallyveil.gate.growth.publishing import Publishing, has_ended, is_due
from tallyveil.gate.growth.replacing import Replacing

__all__ = ["publish_due", "publishing_on_time", "warn"]

_PAUSE: Final = 20.0  # seconds: what a missed time is late at most


@contextmanager
def publishing_on_time(gate: Gate) -> Iterator[None]:
    """Publish what is due, now and while the block runs, on a thread of its own."""
    if all(table.data.publish is None for table in gate.editions.versions.tables.values()):
        yield
        return
    ended = threading.Event()
    thread = threading.Thread(target=_publish, args=(gate, ended), name="tallyveil-publishing")
    thread.daemon = True  # to count a large day may take longer than a server takes to end
    thread.start()
    try:
        yield
    finally:
        ended.set()


def _publish(gate: Gate, ended: threading.Event) -> None:
    bought: Edition | None = None
    told: set[tuple[str, str]] = set()
    while not ended.is_set():
        try:
            now = dt.datetime.now(dt.UTC)
            publish_due(gate, now)
            edition, lost = gate.editions.now, dict[str, list[str]]()
            if edition is not bought:
                buy_plans(gate)
                lost, bought = lost_answers(gate), edition
            warn(gate, now, lost, told)
        except (TallyveilError, OSError, duckdb.Error, MemoryError) as error:
            safe = isinstance(error, TallyveilError | OSError)
            reason = str(error) if safe else type(error).__name__  # not what it says of rows
            report("not published", level=logging.ERROR, reason=reason)
        ended.wait(_PAUSE)


def warn(
    gate: Gate, now: dt.datetime, lost: Mapping[str, Sequence[str]], told: set[tuple[str, str]]
) -> None:
    """Report tables whose range of days has ended, and answers of plans that were charged and
    ``lost``, but none that was ``told`` before."""
    found = {
        (name, f"days after {table.day_range[1]} are not published")
        for name, table in gate.editions.versions.tables.items()
        if has_ended(table, now)
    }
    answers = ((name, answer) for name, own in lost.items() for answer in own)
    found |= {(name, f"charged, and lost: {answer}") for name, answer in answers}
    for name, reason in sorted(found - told):
        report("not published", level=logging.WARNING, table=name, reason=reason)
    told |= found


def publish_due(gate: Gate, now: dt.datetime) -> None:
    """Publish what is due of the tables with a time of publication, from the policy's source.
    Raises what `Publisher.publish` raises."""
    gate.editions.follow()  # what another process has published for this time
    served, versions = gate.editions.now.versions, gate.editions.versions
    due = [
        name
        for name, table in versions.tables.items()
        if table.data.publish is not None and is_due(table, served.get(name), now)
    ]
    if due:
        accountant = gate.accountant
        about = versions.files, accountant.rows_key, accountant.versions
        publisher = Publisher(
            Publishing(versions.joint, *about, accountant.publish_version),
            Replacing(gate.policy, *about, accountant.publish_replacement),
        )
        after = {name: served[name].number for name in due if served[name].replaced}
        publisher.publish(None, None, now, only=due, after=after)
        gate.witness()
    gate.editions.follow()
