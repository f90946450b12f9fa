"""Superset in a browser: `make test-bi` makes its environment, and leaves the pictures in .bi/seen.
The SQL it sends is asked in the suite, too: tests/catalog, tests/rewriter and tests/wire have it.
"""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

COUNTS = {"Berlin": 5714, "Madrid": 2857, "Paris": 5714, "Rome": 5714}
DIAGNOSES = {"cold": 2, "flu": 2, "fracture": 1}  # of five
NEAR = 400
"""Beyond the noise, which has scale 20, and what the made-up rows are off these counts."""


def counts(rows: list[list[str]]) -> dict[str, Any]:
    return {name: pytest.approx(int(n.replace(",", "")), abs=NEAR) for name, n in rows}


def test_a_database_is_added_by_its_address(steps: dict[str, Any]) -> None:
    assert steps["database"] == {"seen": ["Connection looks good!"], "cost": 0}


def test_a_dataset_has_the_columns_and_types_of_the_policy(steps: dict[str, Any]) -> None:
    columns = [
        ["city", "TEXT"],
        ["age", "INTEGER"],
        ["sex", "TEXT"],
        ["admitted", "DATE"],
        ["diagnosis", "TEXT"],
    ]
    assert steps["dataset"] == {"seen": columns, "cost": 0}


def test_a_chart_is_drawn(steps: dict[str, Any]) -> None:
    """Twice, and paid for once."""
    assert steps["chart"] == {"seen": ["12 rows"], "cost": pytest.approx(0.05)}


def test_a_dashboard_shows_its_charts(steps: dict[str, Any]) -> None:
    shown = steps["dashboard"]["seen"]
    assert not shown["errors"]
    assert counts(shown["rows"]) == COUNTS
    assert int(shown["number"].replace(",", "")) == pytest.approx(20_000, abs=NEAR)


def test_a_filter_box_lists_the_values_and_filters_by_one(steps: dict[str, Any]) -> None:
    shown = steps["filter_box"]["seen"]
    assert sorted(shown["offered"]) == sorted(COUNTS)
    assert not shown["errors"]
    assert counts(shown["rows"]) == {"Paris": COUNTS["Paris"]}


def test_one_drills_down_by_another_attribute(steps: dict[str, Any]) -> None:
    found = counts(steps["drill_by"]["seen"])
    assert found == {name: COUNTS["Paris"] * n // 5 for name, n in DIAGNOSES.items()}


def test_records_are_refused_with_a_hint_that_superset_shows(steps: dict[str, Any]) -> None:
    assert "rows of a protected table are not answered" in steps["drill_to_detail"]["seen"]
    assert "Ask for counts" in steps["drill_to_detail"]["seen"]
    assert steps["drill_to_detail"]["cost"] == 0


def test_a_dashboard_that_is_refreshed_costs_nothing(steps: dict[str, Any]) -> None:
    """What was asked meanwhile may have made its numbers more precise."""
    assert steps["refresh"]["cost"] == 0
    assert not steps["refresh"]["seen"]["errors"]
    assert counts(steps["refresh"]["seen"]["rows"]) == {"Paris": COUNTS["Paris"]}


def test_a_statement_is_asked_in_sql_lab(steps: dict[str, Any]) -> None:
    *numbers, f, women, m, men, null, unknown = steps["sql_lab"]["seen"]
    assert (numbers, f, m, null) == (["1", "2", "3"], "F", "M", "NULL")
    assert [int(women), int(men), int(unknown)] == [
        pytest.approx(n, abs=NEAR) for n in (7111, 7111, 1778)
    ]
