"""Data frames as the source: counted as DuckDB's own table of the same rows is."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pytest

import tallyveil

SEX = ["F", "M", None, "F", "F"]
AGE = [30, 31, 30, None, 30]
ATTRIBUTES: dict[str, Any] = {
    "sex": {"values": ["F", "M"], "nullable": True},
    "age": {"range": [30, 31], "nullable": True},
}
QUERY = "SELECT sex, age, count(*) FROM person GROUP BY ALL"
SECRET = "hunter2"


class Capsule:
    """Nothing but the protocol; a stream of it can be taken once."""

    def __init__(self, table: pa.Table) -> None:
        self._table: pa.Table | None = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        table, self._table = self._table, None
        assert table is not None, "the stream was asked for twice"
        return table.__arrow_c_stream__(requested_schema)


def polars_frame() -> Any:
    polars = pytest.importorskip("polars", reason="polars is not installed")
    return polars.DataFrame({"sex": SEX, "age": AGE})


ARROW = pa.table({"sex": SEX, "age": pa.array(AGE, pa.int16())})
FRAMES: dict[str, Callable[[], Any]] = {
    "arrow": lambda: ARROW,
    "arrow dictionary": lambda: ARROW.set_column(0, "sex", ARROW["sex"].dictionary_encode()),
    "record batch reader": ARROW.to_reader,
    "capsule": lambda: Capsule(ARROW),
    "pandas": lambda: pd.DataFrame({"sex": SEX, "age": AGE}, index=[5, 5, 1, 2, 3]),
    "pandas objects": lambda: pd.DataFrame({"sex": SEX, "age": AGE}, dtype=object),
    "pandas of no one type": lambda: pd.DataFrame(
        {"sex": ["F", "M", float("nan"), "F", "F"], "age": [30, "31", 30.0, b"\xff", "30"]}
    ),
    "pandas category": lambda: pd.DataFrame({"sex": SEX, "age": AGE}).astype({"sex": "category"}),
    "polars": polars_frame,
    "polars lazily": lambda: polars_frame().lazy(),
    "arrow dataset": lambda: pyarrow.dataset.dataset(ARROW),
}


def policy(base: Path, origin: str = "people", **attributes: Any) -> tallyveil.Policy:
    table = {
        "from": origin,
        "neighbours": "add_remove",
        "budget": {"epsilon": 200.0},
        "attributes": attributes or ATTRIBUTES,
    }
    declared = {"tables": {"person": table}, "defaults": {"epsilon": 90.0}}
    return tallyveil.parse_policy(declared, base=base)


ORIGINS = ["people", "person", "main.People", "FROM person SELECT *"]


@pytest.mark.parametrize(
    ("name", "origin"),
    [(name, ORIGINS[n % 4]) for n, name in enumerate(FRAMES)]
    + [("pandas", origin) for origin in ORIGINS[1:]],
)
def test_a_frame_is_counted_like_a_table(tmp_path: Path, name: str, origin: str) -> None:
    # At this cost the noise is other than 0 with a probability below 10⁻³⁸.
    with tallyveil.connect(policy(tmp_path, origin), source=FRAMES[name]()) as connection:
        found = {tuple(row[:2]): row[2] for row in connection.execute(QUERY).fetchall()}
    assert {key: n for key, n in found.items() if n} == {
        ("F", 30): 2,
        ("M", 31): 1,
        (None, 30): 1,
        ("F", None): 1,
    }


def test_days_and_numbers_of_a_pandas_frame(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "day": [dt.date(2020, 1, 1), dt.datetime(2020, 1, 2, 3), "2020-01-02", None],
            "at": pd.to_datetime(
                ["2020-01-01 23:00", "2020-01-02 00:00", None, "1990-01-01 00:00"]
            ),
            "yes": [True, False, "t", 0],
        }
    )
    days = {"range": [dt.date(2020, 1, 1), dt.date(2020, 1, 2)], "other": True, "nullable": True}
    axes = {"day": days, "at": days, "yes": {"values": [True, False]}}
    with tallyveil.connect(policy(tmp_path, **axes), source=frame) as connection:
        rows = connection.execute("SELECT day, count(*) FROM person GROUP BY day").fetchall()
        assert {str(day): n for day, n in rows} == {"2020-01-01": 1, "2020-01-02": 2, "None": 1}
        rows = connection.execute('SELECT "at", count(*) FROM person GROUP BY 1').fetchall()
        assert {str(at): n for at, n in rows} == {"2020-01-01": 1, "2020-01-02": 1, "None": 2}


@pytest.mark.parametrize("source", ["people.parquet", {"sex": SEX}, [1], 3, pd.Series([1])])
def test_another_source_is_a_type_error(tmp_path: Path, source: Any) -> None:
    with pytest.raises(TypeError, match="source is an open DuckDB connection, a pandas") as caught:
        tallyveil.connect(policy(tmp_path), source=source)
    assert type(source).__name__ in str(caught.value)


def test_a_frame_that_does_not_fit_is_not_quoted(tmp_path: Path) -> None:
    twice = pa.Table.from_arrays([pa.array([SECRET]), pa.array([1])], names=["sex", "SEX"])
    with pytest.raises(tallyveil.Error, match="two columns of one name") as caught:
        tallyveil.connect(policy(tmp_path), source=twice)
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    with pytest.raises(tallyveil.Error, match="the source has no column age") as caught:
        tallyveil.connect(policy(tmp_path), source=ARROW.drop_columns("age"))
    assert caught.value.hint is not None
    assert caught.value.hint.startswith('In the policy column = "…" names the one that holds it')


def test_the_frame_stays_as_it_was(tmp_path: Path) -> None:
    frame = pd.DataFrame({"sex": SEX, "age": AGE})
    before = frame.copy()
    tallyveil.connect(policy(tmp_path), source=frame).close()
    pd.testing.assert_frame_equal(frame, before)
