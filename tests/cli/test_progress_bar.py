"""The bar that a terminal shows while tables are read, and no program sees."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import duckdb
import pyarrow as pa
import pytest

from tallyveil.cli import progress_bar as module
from tallyveil.cli.progress_bar import progress_bar
from tallyveil.cube import load_cubes
from tallyveil.policy import parse_policy
from tallyveil.progress import displayed_by
from tests.cube.test_streamed_source import AXES, ROWS, Streamed


class Terminal:
    def __init__(self, end: int) -> None:
        self._end, self._seen = end, ""

    def until(self, text: str) -> None:
        """Wait until it has shown the text."""
        while text not in self._seen:
            self._seen += os.read(self._end, 4096).decode(errors="replace")


@contextmanager
def terminal() -> Iterator[Terminal]:
    """Standard error is a terminal, and each table takes long."""
    end, other = os.openpty()
    with pytest.MonkeyPatch.context() as patch, open(other, "w") as stream:
        patch.setattr(module, "_PATIENCE", 0)
        patch.setenv("TERM", "xterm")
        patch.setenv("COLUMNS", "80")
        patch.setattr(sys, "stderr", stream)
        yield Terminal(end)
    os.close(end)


class Slow(Streamed):
    """Hands out a table's rows when the terminal shows that it is read."""

    def __init__(self, shown: Terminal) -> None:
        super().__init__(ROWS)
        self._shown = shown

    def batches(
        self, origin: str, columns: Sequence[str], key: str, *, alike: bool
    ) -> pa.RecordBatchReader:
        self._shown.until(f"reading {origin}")
        return super().batches(origin, columns, key, alike=alike)


def test_it_is_shown_while_tables_are_read(capsys: pytest.CaptureFixture[str]) -> None:
    one: dict[str, Any] = {"budget": {"epsilon": 1}, "attributes": AXES}
    policy = parse_policy({"tables": dict.fromkeys(("first", "second"), one)})
    with terminal() as shown, displayed_by(progress_bar(json=False)):
        load_cubes(policy, Slow(shown), key=b"key")
    assert capsys.readouterr().out == ""


class Connection:
    def execute(self, setting: str) -> None:
        assert setting.startswith("SET enable_progress_bar")

    def query_progress(self) -> float:
        return 42.0


def test_it_says_how_far_duckdb_is() -> None:
    with terminal() as shown:
        display = progress_bar(json=False)
        assert display is not None
        with display("people") as follow:
            follow(cast(duckdb.DuckDBPyConnection, Connection()))
            shown.until("42%")
        shown.until("\x1b[?25h")  # the cursor


def test_a_program_sees_none() -> None:
    with terminal():
        assert progress_bar(json=True) is None
    with pytest.MonkeyPatch.context() as patch, open(os.devnull, "w") as stream:
        patch.setattr(sys, "stderr", stream)
        assert progress_bar(json=False) is None
