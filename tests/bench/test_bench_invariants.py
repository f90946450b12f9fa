"""The measurements of exact counts run, and agree with references by another program."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import invariants, two_views
from bench.invariants_pages import PAGES, TABLES, written

PREFIXES = invariants.prefixes(8)
ONE, EIGHT = np.ones((1, 4)), np.ones((1, 8))


def test_the_smallest_ball_is_that_of_the_references() -> None:
    for rows, exact, expected in (
        (np.eye(4)[:3], ONE, 2 / 3),
        (np.eye(4), ONE, 3 / 4),
        (PREFIXES[:7], EIGHT, 1.75),
        (np.eye(12), invariants.margins(3, 4), 1 / 2),
    ):
        assert invariants.smallest_ball(rows, exact) == pytest.approx(expected, rel=1e-3)


def test_the_slope_of_errors_that_grow_is_found() -> None:
    sizes = np.array([10.0, 100.0, 1000.0])
    found, error = invariants.slope(sizes, np.array([[1.0, 3.0, 5.0], [2.0, 4.0, 6.0]]))
    assert found == pytest.approx(2)
    assert error == pytest.approx(0)


def test_what_invariants_buy_is_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(invariants, "truths", lambda: {f"{n % 3:02d}{n:03d}": 9 for n in range(12)})
    invariants.bought()
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[0]["plain"] == 12
    assert lines[0]["bound"] == 3 * 9 / 4
    for line in lines:
        assert line["plain"] >= line["projected"] >= line["charged"] >= line["bound"] - 1e-6
        assert line["optimal"] is None or line["optimal"] >= line["bound"] - 1e-6


def test_the_pages_have_the_tables_of_what_is_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each table has a place, with the columns and as many rows as lines are printed; and is
    written there as often as one likes."""
    monkeypatch.setattr(invariants, "RUNS", 2)
    for name, value in (("RUNS", 2), ("SIZES", (2, 1)), ("ZONES", 3), ("COUNTS", 6)):
        monkeypatch.setattr(two_views, name, value)
    monkeypatch.setattr(
        invariants, "truths", lambda: {f"{15 + n % 3}{n:03d}": 9 + n for n in range(30)}
    )
    monkeypatch.setattr(invariants, "counties", small_counties)
    monkeypatch.setattr(invariants, "timed", lambda *_: [1.0, 2.0])
    monkeypatch.setattr(invariants, "CAMPUS", {"building": 2, "hour": 14, "team": 24})
    invariants.main()
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    places = []
    for name in PAGES:
        page = (Path("docs/experiments") / name).read_text("utf-8")
        changed = written(page, lines)
        assert changed.count("\n") == page.count("\n")
        assert written(changed, lines) == changed
        for place, table in re.findall(r"<!-- (.+?) -->\n(.*?)<!-- end -->", page, re.DOTALL):
            places.append(place)
            titles = table.splitlines()[0]
            assert titles == TABLES[place].text(lines).splitlines()[0]
    assert sorted(places) == sorted(TABLES)


def small_counties(*, exact: bool, epsilon: float) -> Any:
    table: dict[str, Any] = {
        "attributes": {"county": {"values": list(invariants.truths())}},
        "count": "population",
    }
    if exact:
        table["invariants"] = [{"sql": invariants.STATES}]
    values = ", ".join(f"('{county}', {n})" for county, n in invariants.truths().items())
    sql = f"SELECT * FROM (VALUES {values}) AS t (county, population)"
    return invariants.connected(table, epsilon, sql)
