"""Synthetic people for the demo, from a random generator.

The proportions resemble a population's, but are no statistics of any place. Some records are
irregular on purpose (NULLs, an undeclared level of education, incomes beyond the last bin), so that
the example policy has cases to handle.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from tallyveil.arrays import BoolArray, IntArray

__all__ = ["EXAMPLE_POLICY", "copy_example", "write_people"]

EXAMPLE_POLICY = Path(__file__).parent.parent / "examples" / "people.toml"

# The table is data, not a release, so a fixed seed is safe: everyone gets the same table.
_SEED = 20_240_229
_STATES = (
    "AL AK AZ AR CA CO CT DE DC FL GA HI ID IL IN IA KS KY LA ME MD MA MI MN MS MO MT NE NV NH "
    "NJ NM NY NC ND OH OK OR PA RI SC SD TN TX UT VT VA WA WV WI WY"
)
_COUNTIES = 12
_EDUCATION = ("none", "primary", "secondary", "bachelor", "master", "doctorate", "trade")
_EDUCATION_SHARES = (0.03, 0.09, 0.44, 0.22, 0.12, 0.03, 0.07)
_ADULT = 16


def copy_example(folder: Path) -> Path:
    """Copy the example policy and its public table to ``folder``; return the policy's path."""
    for example in EXAMPLE_POLICY.parent.iterdir():
        shutil.copyfile(example, folder / example.name)
    return folder / EXAMPLE_POLICY.name


def write_people(path: str | Path, rows: int = 200_000) -> None:
    """Write ``rows`` synthetic people to a Parquet file, the same ones every time.

    Columns: state (text), county (integer, within its state), age (whole years), sex (F, M or
    NULL), education (text or NULL), income (a year's, DOUBLE or NULL).
    """
    random = np.random.default_rng(_SEED)
    age = _ages(random, rows)
    child = age < _ADULT
    table = pa.table(
        {
            "state": _states(random, rows),
            "county": pa.array(1 + random.binomial(_COUNTIES - 1, 0.3, rows), pa.int32()),
            "age": pa.array(age, pa.int32()),
            "sex": _text(random.choice(["F", "M"], rows), random.random(rows) < 0.02),
            "education": _text(
                random.choice(_EDUCATION, rows, p=_EDUCATION_SHARES),
                child | (random.random(rows) < 0.03),
            ),
            "income": _incomes(random, rows, child),
        }
    )
    pq.write_table(table, path)


def _states(random: np.random.Generator, rows: int) -> pa.Array:
    """Draw states: a few with many people and many with few, in arbitrary order."""
    names = _STATES.split()
    weights = 1 / (4 + random.permutation(len(names)))
    return pa.array(random.choice(names, rows, p=weights / weights.sum()))


def _ages(random: np.random.Generator, rows: int) -> IntArray:
    """Draw ages: evenly distributed up to about 60, then falling."""
    ages = np.floor(random.uniform(0, 62, rows) + random.exponential(11, rows))
    return np.minimum(ages, 115).astype(np.int64)


def _incomes(random: np.random.Generator, rows: int, child: BoolArray) -> pa.Array:
    """Draw log-normal incomes, to the cent; NULL for children and one adult in twenty."""
    income = np.round(random.lognormal(10.4, 0.85, rows), 2)
    return pa.array(income, pa.float64(), mask=child | (random.random(rows) < 0.05))


def _text(values: npt.NDArray[np.str_], missing: BoolArray) -> pa.Array:
    return pa.array(values, pa.string(), mask=missing)
