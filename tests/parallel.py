"""Several runs of the tests at once, forks of the process that has collected them.

Each run takes the next file that no other has taken, and reports to that process, which counts and
prints. What the tests of a file share, and files of a run, is set up in each run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any

import pytest

__all__ = ["run_in_parallel"]

_WIDTH = 4  # bytes that name a file


def run_in_parallel(session: pytest.Session, runs: int) -> None:
    """Run all tests. It returns in each fork too, which has run its share and then ends."""
    files: dict[Any, list[pytest.Item]] = {}
    for item in session.items:
        files.setdefault(item.path, []).append(item)
    numbers, given = os.pipe()
    os.write(given, b"".join(number.to_bytes(_WIDTH, "big") for number in range(len(files))))
    os.close(given)
    sys.stdout.flush()
    sys.stderr.flush()
    forks: dict[Connection, int] = {}
    for _ in range(runs):
        ours, theirs = Pipe(duplex=False)
        if (pid := os.fork()) == 0:
            for one in (ours, *forks):
                one.close()
            _run(session, _taken(list(files.values()), numbers), theirs)
            return
        theirs.close()
        forks[ours] = pid
    _gather(session, forks, numbers)


def _taken(files: Sequence[list[pytest.Item]], numbers: int) -> Iterator[pytest.Item]:
    """The tests of one file after the other, of those that no run has taken yet."""
    while number := os.read(numbers, _WIDTH):  # the kernel gives each to one reader
        yield from files[int.from_bytes(number, "big")]


class _Reporter:
    """A plugin of a fork: it reports to the process that was forked."""

    def __init__(self, config: pytest.Config, to: Connection) -> None:
        self._config, self._to = config, to

    def pytest_runtest_logstart(self, nodeid: str, location: Any) -> None:
        self._to.send(("began", (nodeid, location)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            hook = self._config.hook.pytest_report_to_serializable
            self._to.send(("report", hook(config=self._config, report=report)))


def _run(session: pytest.Session, items: Iterator[pytest.Item], to: Connection) -> None:
    reporter = _Reporter(session.config, to)
    _silence(session.config)
    session.config.pluginmanager.register(reporter)
    try:
        following = next(items, None)
        while following is not None:
            item, following = following, next(items, None)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if session.shouldfail:
                raise session.Failed(session.shouldfail)
            if session.shouldstop:
                raise session.Interrupted(session.shouldstop)
    finally:
        session.config.pluginmanager.unregister(reporter)
        to.send(("ended", session.testsfailed > 0))


def _silence(config: pytest.Config) -> None:
    """Print nothing, and capture what tests print in files of this fork's own."""
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    capture.start_global_capturing()
    capture.suspend_global_capture()


def _gather(session: pytest.Session, forks: dict[Connection, int], numbers: int) -> None:
    """Log what the forks report until all have ended, and a failure where one dies."""
    hook, last = session.config.hook, dict.fromkeys(forks, ("", ("", None, "")))
    begun = 0
    while forks:
        for one in wait(list(forks)):
            assert isinstance(one, Connection)
            try:
                what, said = one.recv()
            except EOFError:
                what, said = "died", None
            if what == "began":
                last[one] = said
                begun += 1
                continue
            if what == "report":
                report = hook.pytest_report_from_serializable(config=session.config, data=said)
            else:
                status = os.waitstatus_to_exitcode(os.waitpid(forks.pop(one), 0)[1])
                one.close()
                if what == "ended" and status == int(said):
                    continue
                nodeid, location = last[one]
                ended = f"a run of the tests ended with exit code {status}"
                report = pytest.TestReport(nodeid, location, {}, "failed", ended, "call")
            hook.pytest_runtest_logreport(report=report)
            if session.shouldfail:  # the other runs end after the files that they have begun
                while os.read(numbers, _WIDTH):
                    pass
    os.close(numbers)
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if begun < len(session.items) and not session.testsfailed:
        raise RuntimeError(f"only {begun} of {len(session.items)} tests were run")
