"""Sets, from the command line to debiased counts of their elements."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tallyveil
from tallyveil.mechanisms.records import SetResponse
from tallyveil.sanitise import least_error
from tests.cli.shell import shell
from tests.sanitise.copies import serve_copy

POLICY = """
[source]
url = "members.parquet"

[tables.member]
from = "members"
neighbours = "replace"
budget = { epsilon = 5 }

[tables.member.attributes]
chess = { values = [true, false], nullable = true, other = true }
golf = { values = [true, false], nullable = true, other = true }
level = { range = [0, 9], clamp = true, nullable = true }
rowing = { values = [true, false], nullable = true, other = true }
"""
RECORDS = 6_000


@pytest.fixture
def club(tmp_path: Path) -> Path:
    rows = range(RECORDS)
    table = pa.table(
        {
            "chess": [i % 2 == 0 for i in rows],
            "golf": [None if i % 100 == 0 else i % 5 == 0 for i in rows],
            "level": pa.array([i % 10 for i in rows], pa.int32()),
            "rowing": [i % 10 == 0 for i in rows],
        }
    )
    pq.write_table(table, tmp_path / "members.parquet")
    (tmp_path / "club.toml").write_text(POLICY)
    return tmp_path / "club.toml"


def sanitised(club: Path, *arguments: str) -> Any:
    return shell("sanitise", club, "member", "--out", club.parent / "copy.parquet", *arguments)


def asked(club: Path, sql: str) -> Sequence[Any]:
    with tallyveil.connect(club) as connection:
        rows = connection.execute(sql).fetchall()
        assert connection.budget()[0]["spent"] == 4.0
    return rows


def test_what_a_set_will_cost_and_err_by(club: Path) -> None:
    found = sanitised(
        club, "--epsilon", "4", "--set", "rowing+chess+golf", "--columns", "level", "--split",
        "chess+golf+rowing=3", "--dry-run", "--json",
    )  # fmt: skip
    document = json.loads(found.stdout)
    sets, level = document["parts"]
    law = SetResponse((3, 3, 3), Fraction(3))
    assert (sets["columns"], sets["mechanism"]) == ("chess+golf+rowing", "set response")
    assert (sets["epsilon"], sets["measured_in"]) == (3, "elements changed")
    assert sets["expected_error"] == pytest.approx(law.expected_error, rel=1e-5)
    assert sets["least_error"] == pytest.approx(least_error(27, 3, 3), rel=1e-5)
    assert sets["least_error"] < sets["expected_error"]
    assert level["epsilon"] == 1
    assert document["cost"] == 4
    assert not (club.parent / "copy.parquet").exists()


def test_elements_are_counted_behind_the_perturbation(club: Path) -> None:
    """6,000 records, each element's law known: within 6 standard deviations, false alarm below
    10⁻⁷ for nine counts.
    """
    assert sanitised(club, "--epsilon", "4", "--set", "chess+golf+rowing").exit_code == 0
    serve_copy(club)
    law = SetResponse((3, 3, 3), Fraction(2))
    columns = "column_name, value, observed, estimate, low, high"
    rows = asked(club, f"SELECT {columns} FROM dp.debiased WHERE column_name <> 'level'")
    truth = {
        ("chess", "true"): 3000, ("chess", "false"): 3000, ("chess", None): 0,
        ("golf", "true"): 1140, ("golf", "false"): 4800, ("golf", None): 60,
        ("rowing", "true"): 600, ("rowing", "false"): 5400, ("rowing", None): 0,
    }  # fmt: skip
    assert {(name, value) for name, value, *_ in rows} == set(truth)
    kept, changed = map(float, law.marginal(0))
    deviation = (RECORDS * 0.25) ** 0.5 / (kept - changed)
    for name, value, observed, estimate, low, high in rows:
        assert estimate == pytest.approx((observed - RECORDS * changed) / (kept - changed))
        assert abs(estimate - truth[name, value]) < 6 * deviation
        assert low <= max(0, min(RECORDS, estimate)) <= high
    [[counted]] = asked(club, "SELECT count(*) FROM copy WHERE chess")
    assert [row[2] for row in rows if row[:2] == ("chess", "true")] == [counted]


def test_each_element_has_its_law_and_the_name_of_its_set(club: Path) -> None:
    sanitised(club, "--epsilon", "4", "--set", "rowing+chess", "--columns", "level,golf")
    serve_copy(club)
    rows = asked(club, "SELECT column_name, part, mechanism, cells FROM dp.sanitised ORDER BY ALL")
    assert [tuple(row) for row in rows] == [
        ("chess", "chess+rowing", "set response", 3),
        ("golf", "golf", "randomised response", 3),
        ("level", "level", "randomised response", 11),
        ("rowing", "chess+rowing", "set response", 3),
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "chess+level"], '"level" cannot be an element of a set'),
        (["--set", "chess+nobody"], 'no attribute "nobody"'),
        (["--set", "chess+golf", "--together", "golf+rowing"], "named once"),
        (["--set", "chess+golf", "--set", "rowing+golf"], "named once"),
        (["--set", "chess+golf", "--laplace", "golf"], "cannot have Laplace noise"),
    ],
)
def test_what_is_no_set_is_refused(club: Path, arguments: list[str], words: str) -> None:
    found = sanitised(club, "--epsilon", "4", *arguments)
    assert found.exit_code == 1
    assert words in found.stderr
    assert not (club.parent / "copy.parquet").exists()
