"""Series of fixed length, from the command line to the copy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallyveil
from tallyveil.mechanisms.records import SeriesNoise
from tests.cli.shell import shell
from tests.sanitise.copies import serve_copy

MONTHS = [f"m{n}" for n in range(1, 9)]
SERIES = "+".join(MONTHS)
RECORDS = 400


@pytest.fixture
def meters(tmp_path: Path) -> Path:
    columns: dict[str, Any] = {
        name: pa.array([(7 * i + 11 * n) % 70 for i in range(RECORDS)], pa.int32())
        for n, name in enumerate(MONTHS)
    }
    columns["m3"] = pa.array([None if i % 50 == 0 else i % 60 for i in range(RECORDS)], pa.int32())
    columns["kind"] = ["flat" if i % 3 else "house" for i in range(RECORDS)]
    pq.write_table(pa.table(columns), tmp_path / "meters.parquet")
    attributes = "\n".join(
        f"{name} = {{ range = [0, 60], clamp = true, nullable = true }}" for name in MONTHS
    )
    (tmp_path / "meters.toml").write_text(
        f"""
[source]
url = "meters.parquet"

[tables.meter]
from = "meters"
neighbours = "replace"
budget = {{ epsilon = 6000 }}

[tables.meter.attributes]
{attributes}
kind = {{ values = ["flat", "house"], other = true }}
"""
    )
    return tmp_path / "meters.toml"


def sanitised(meters: Path, *arguments: str) -> Any:
    out = meters.parent / "copy.parquet"
    return shell("sanitise", meters, "meter", "--out", out, *arguments)


def test_a_series_too_long_to_list_is_charged_once(meters: Path) -> None:
    """62⁸ values. The pair that differs in one month pays for the whole series; a query about this
    month adds to it, one about the kind to what the kind's part costs.
    """
    found = sanitised(meters, "--epsilon", "4", "--series", SERIES, "--split", "kind=1", "--json")
    assert found.exit_code == 0, found.stderr
    document = json.loads(found.stdout)
    series, _ = document["parts"]
    law = SeriesNoise(8, 62, series["epsilon"])
    assert (series["columns"], series["mechanism"]) == (SERIES, "series noise")
    assert series["epsilon"] == pytest.approx(3, abs=1e-9)
    assert series["expected_error"] == pytest.approx(law.expected_error, rel=1e-5)
    assert 0 < series["least_error"] < series["expected_error"] <= 60
    assert series["measured_in"] == f"steps of {SERIES}"
    assert document["cost"] == 4
    serve_copy(meters)
    with tallyveil.connect(meters) as connection:
        assert connection.budget()[0]["spent"] == 4
        [row] = connection.execute(
            "SELECT part, mechanism, scale, end_shift, kept FROM dp.sanitised WHERE scale > 0"
        ).fetchall()
        assert tuple(row[:2]) == (SERIES, "series noise")
        assert (row[2], row[3]) == (law.scale, None)
        assert row[4] == pytest.approx(law.flag.kept / 2**64)
        counted = connection.execute("SELECT DISTINCT column_name FROM dp.debiased").fetchall()
        assert [tuple(row) for row in counted] == [("kind",)]
        missing = "count(*) FILTER (WHERE m1 IS NULL), count(*) FILTER (WHERE m8 IS NULL)"
        [[rows, first, last]] = connection.execute(f"SELECT count(*), {missing} FROM copy")
        assert rows == RECORDS
        assert first == last
        connection.execute("SET dp.epsilon = 2")
        connection.execute("SELECT count(*) FROM meter WHERE m1 < 30").fetchall()
        assert connection.budget()[0]["spent"] == 6


def test_at_a_large_epsilon_every_series_is_kept(meters: Path) -> None:
    """At ε = 5000 noise has b = 1/45 and a NULL changes with probability 2⁻⁶⁴; DuckDB on the raw
    rows says what the cells are, and that a series with a month missing is missing.
    """
    out = meters.parent / "copy.parquet"
    assert sanitised(meters, "--epsilon", "6000", "--series", SERIES).exit_code == 0
    cells = ", ".join(
        f"CASE WHEN m3 IS NOT NULL THEN least({name}, 60) END AS {name}" for name in MONTHS
    )
    found = duckdb.sql(f"SELECT {', '.join(MONTHS)}, kind FROM '{out}' ORDER BY ALL").fetchall()
    raw = f"SELECT {cells}, kind FROM '{meters.parent}/meters.parquet' ORDER BY ALL"
    assert found == duckdb.sql(raw).fetchall()


def test_parts_of_a_series_are_what_was_asked(meters: Path) -> None:
    dry = sanitised(
        meters, "--epsilon", "2", "--columns", "kind", "--series", "m4+m2", "--series", "m1+m3",
        "--dry-run", "--json",
    )  # fmt: skip
    parts = json.loads(dry.stdout)["parts"]
    assert [(part["columns"], part["mechanism"]) for part in parts] == [
        ("m1+m3", "series noise"), ("m2+m4", "series noise"), ("kind", "randomised response"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--series", "m1+kind"], '"kind" cannot be in a series: it is not declared as a range'),
        (["--series", "kind+m1"], '"kind" cannot be in a series: it is not declared as a range'),
        (["--series", "m1+m2", "--laplace", "m2"], "cannot have Laplace noise"),
        (["--series", "m1+m2", "--series", "m2+m3"], "named once"),
        (["--series", "m1+m2", "--split", "m1=1"], 'no part "m1"'),
    ],
)
def test_what_is_no_series_is_refused(meters: Path, arguments: list[str], words: str) -> None:
    found = sanitised(meters, "--epsilon", "4", *arguments)
    assert found.exit_code == 1
    assert words in found.stderr
    assert not (meters.parent / "copy.parquet").exists()


def test_times_have_the_same_range_and_not_too_many_values(meters: Path) -> None:
    text = meters.read_text()
    meters.write_text(text.replace("m2 = { range = [0, 60]", "m2 = { range = [0, 59]"))
    found = sanitised(meters, "--epsilon", "4", "--series", "m1+m2")
    assert '"m2" cannot be in a series with "m1"' in found.stderr
    meters.write_text(text.replace("[0, 60]", "[0, 600]"))
    found = sanitised(meters, "--epsilon", "4", "--series", SERIES)
    assert "values together, more than" in found.stderr


def test_the_records_fit_their_description(meters: Path) -> None:
    out = meters.parent / "copy.parquet"
    assert sanitised(meters, "--epsilon", "3", "--series", SERIES).exit_code == 0
    table = pq.read_table(out)
    place = table.schema.get_field_index("m5")
    changed = table.set_column(place, "m5", pa.array([61] * RECORDS, pa.int32()))
    pq.write_table(changed.replace_schema_metadata(table.schema.metadata), out)
    serve_copy(meters)
    found = shell("sql", meters, "SELECT count(*) FROM copy")
    assert "do not match their description" in found.stderr
