"""The tests that execute a place of the package, and whether they find a fault there."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.mutants.mutation import ROOT, Mutation, room_of

__all__ = ["Executed", "Outcome", "record", "tried"]

_COPIED = ("tallyveil", "tests", "docs", "bench", "examples", "pyproject.toml", "README.md")
_COPIED += ("Makefile", "CHANGELOG.md", "CONTRIBUTING.md", ".ci")
_OPTIONS = ["-q", "-x", "--assert=plain", "-p", "no:cacheprovider", "--no-header"]
_LIMIT = 900  # seconds: what takes longer waits for ever


class _Contexts:
    """A plugin: what is executed is executed by a file of tests."""

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        import coverage

        if (measuring := coverage.Coverage.current()) is not None:
            measuring.switch_context(nodeid.partition("::")[0])


def record(data: Path) -> int:
    """Run the suite once and store which files of tests execute which lines, and for how long."""
    import coverage
    import pytest

    measuring = coverage.Coverage(data_file=str(data), source=["tallyveil"], config_file=False)
    measuring.start()
    try:
        return pytest.main(["-q", "-p", "no:cacheprovider"], plugins=[_Contexts()])
    finally:
        measuring.stop()
        measuring.save()


@dataclass(frozen=True)
class Executed:
    """Files of tests by file of the package and line."""

    tests: dict[str, dict[int, list[str]]]

    @classmethod
    def read(cls, data: Path) -> Executed:
        import coverage

        stored = coverage.CoverageData(str(data))
        stored.read()
        tests = {}
        for file in stored.measured_files():
            by_line = stored.contexts_by_lineno(file)
            path = Path(file).relative_to(ROOT).as_posix()
            tests[path] = {line: [c for c in by_line[line] if c] for line in by_line}
        return cls(tests)

    def of(self, mutation: Mutation, text: str) -> list[str]:
        """The files of tests that execute its lines, those of its room first; what is executed as
        the package is imported, or by other processes alone, is tested by the whole suite."""
        first = text.count("\n", 0, text.find(mutation.old, mutation.start)) + 1
        lines = range(first, first + mutation.old.count("\n") + 1)
        known = self.tests.get(mutation.path, {})
        found = {test for line in lines for test in known.get(line, ())}
        if not found:
            return ["tests"]
        room = f"tests/{room_of(mutation.path)}/"
        return sorted(found, key=lambda test: (not test.startswith(room), test))


@dataclass(frozen=True)
class Outcome:
    """``found``: how the tests ended that find the fault, or None."""

    mutation: Mutation
    found: str | None

    def as_json(self) -> str:
        return json.dumps(
            {
                "fault": self.mutation.name,
                "room": room_of(self.mutation.path),
                "effect": self.mutation.effect,
                "found": self.found,
            }
        )


def _copy(root: Path, folder: Path) -> None:
    for name in _COPIED:
        if (root / name).is_dir():
            shutil.copytree(root / name, folder / name)
        elif (root / name).exists():
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, folder / name)


def tried(mutation: Mutation, tests: Iterable[str], folder: Path, root: Path = ROOT) -> Outcome:
    """Run the tests on a copy of the project in ``folder`` with the fault."""
    if not folder.exists():
        _copy(root, folder)
    file = folder / mutation.path
    text = file.read_text(encoding="utf-8")
    file.write_text(mutation.applied(text), encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(folder), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", *_OPTIONS, *tests]
    try:
        with subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                output, _ = process.communicate(timeout=_LIMIT)
            except subprocess.TimeoutExpired:
                return Outcome(mutation, "the tests do not end")
            finally:  # servers that the tests have started end with them
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
    finally:
        file.write_text(text, encoding="utf-8")
    if process.returncode == 0:
        return Outcome(mutation, None)
    failed = [line for line in output.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return Outcome(mutation, failed[0] if failed else f"pytest ended with {process.returncode}")
