"""Statements at the edge of what is answered are answered, within their gate's time limit."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import cliffs
from bench.cliffs import opened, statement, taken


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("200 BETWEENs", marks=pytest.mark.slow),
        pytest.param("3,000 ORs", marks=pytest.mark.slow),
        pytest.param("2,000 ORs of ANDs", marks=pytest.mark.slow),
    ],
)
def test_a_long_statement_is_answered(tmp_path: Path, name: str) -> None:
    """Products of 4,000,000 cells that 200 aggregates, or 2,000 conditions, are about, and a
    condition 3,000 deep.
    """
    gate = opened(tmp_path)
    found = taken(gate, statement(name, 3))
    gate.close()
    assert (found.rows, found.sqlstate) == (1, None)
    assert found.seconds > 0


def test_seconds_are_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cliffs, "REPEATS", 1)
    monkeypatch.setattr("bench.looks._WARM", 1)
    monkeypatch.setenv("ONLY", "two sums")
    cliffs.main()
    assert '"statement": "two sums"' in capsys.readouterr().out
