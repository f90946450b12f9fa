"""Bins that are represented by numbers are counted by their edges, however long a number is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb
import pytest

from tallyveil.cube import load_cubes
from tallyveil.policy import parse_policy
from tests.pairs import alternately

NUMBERS = ["5", "15", "19.99", "9" * 38, "-" + "9" * 38, "170141183460469231731687303715884105727"]


@pytest.mark.parametrize(
    ("edges", "represent", "kind"),
    alternately(
        [[0, 15, 20], [0.0, 15.0, 20.0]],
        ["middle", [7, 17], [7.25, 17.5]],
        ["VARCHAR", "DECIMAL(38,0)", "HUGEINT", "DOUBLE"],
    ),
)
def test_no_number_makes_loading_fail(
    kind: str, represent: Any, edges: list[Any], counts: Callable[..., list[int]]
) -> None:
    numbers = [one for one in NUMBERS if kind != "DECIMAL(38,0)" or len(one.strip("-")) <= 38]
    bins = {"bins": edges, "represent": represent, "clamp": True, "nullable": True}
    table = {"budget": {"epsilon": 1}, "attributes": {"b": bins}}
    with duckdb.connect() as source:
        values = ", ".join(f"(TRY_CAST('{one}' AS {kind}))" for one in numbers)
        source.execute(f"CREATE TABLE t AS FROM (VALUES {values}) AS t(b)")
        clamped = [min(max(float(one), 0), 19.995) for one in numbers]
        if kind in ("DECIMAL(38,0)", "HUGEINT"):
            clamped = [min(round(one), 19) for one in clamped]
        cube = load_cubes(parse_policy({"tables": {"t": table}}), source, key=b"key")["t"]
    below = sum(one < 15 for one in clamped)
    assert counts(cube) == [below, len(numbers) - below, 0]
