"""Each scenario of a file is a test, and one in ten is one over the wire too, by its name."""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.house import Different, play
from tests.scenarios.scenario import Scenario, read


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.suffix == ".sql" and file_path.parent == Path(__file__).parent:
        return _File.from_parent(parent, path=file_path)
    return None


class _File(pytest.File):
    def collect(self) -> Iterable[pytest.Item]:
        for scenario in read(self.path):
            only = scenario.declared.get("only")
            chosen = zlib.crc32(scenario.title.encode()) % 10 == 0
            if only != "over the wire":
                yield _Test.from_parent(self, name=scenario.title, scenario=scenario)
            if only == "over the wire" or (chosen and only is None):
                name = f"{scenario.title}, over the wire"
                yield _Test.from_parent(self, name=name, scenario=scenario, wire=True)


class _Test(pytest.Item):
    def __init__(self, *, scenario: Scenario, wire: bool = False, **others: Any) -> None:
        super().__init__(**others)
        self._scenario, self._wire = scenario, wire

    def runtest(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            play(self._scenario, Path(folder), self._wire)

    def repr_failure(
        self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None
    ) -> str | Any:
        if isinstance(excinfo.value, Different):
            return f"{self.path.name}, {excinfo.value}"
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self._scenario.line - 1, self.name
