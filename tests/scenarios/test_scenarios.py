"""A scenario fails where it shows something else than is expected, and at no other place."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.house import Different, play
from tests.scenarios.scenario import Scenario, read

SCENARIO = """\
--@ budget.epsilon = 0.25
\\set of_age SELECT count(*) AS n, dp_stddev(n) AS d

--- Counts.
--@ noise = [2, 5]
:of_age FROM person WHERE age = 3;
 40 | 14.136
 NOTICE: cost epsilon 0.1; …; 0.15 of 0.25 remains for person
 SPENT 0.1
SELECT sex, count(*) FROM person GROUP BY sex
    ORDER BY nothing;
             ^
 ERROR 42703: column "nothing" does not exist
 HINT: …
SET dp.source = history;
SELECT sex, count(*) FROM person GROUP BY sex;
 F | NULL
 …
 FREE
"""


def played(text: str, folder: Path, wire: bool = False) -> Scenario:
    path = folder / "one.sql"
    path.write_text(text, encoding="utf-8")
    [scenario] = read(path)
    play(scenario, folder, wire)
    return scenario


@pytest.mark.parametrize("wire", [False, True])
def test_what_is_expected_is_shown(tmp_path: Path, wire: bool) -> None:
    scenario = played(SCENARIO, tmp_path, wire)
    assert scenario.title == "Counts"
    assert len(scenario.steps) == 4


@pytest.mark.parametrize(
    ("right", "wrong", "line"),
    [
        (" 40 |", " 41 |", 6),
        ("14.136", "14.138", 6),
        ("0.15 of", "0.16 of", 6),
        ("SPENT 0.1", "SPENT 0.2", 6),
        ("SPENT 0.1", "FREE", 6),
        ("             ^", "            ^", 10),
        ("42703", "42702", 10),
        ('"nothing"', '"something"', 10),
        (" F | NULL\n …", " F | NULL", 16),
        (" F | NULL", " F | 3", 16),
        (" …\n FREE", " …\n ERROR 42P01: …", 16),
        (" …\n FREE", " …\n NOTICE: none", 16),
    ],
)
def test_another_answer_is_reported_at_its_line(
    tmp_path: Path, right: str, wrong: str, line: int
) -> None:
    assert SCENARIO.count(right) >= 1
    with pytest.raises(Different, match=f"^line {line}:"):
        played(SCENARIO.replace(right, wrong), tmp_path)


@pytest.mark.parametrize(
    "text", ["--- One.\n 3\n", "--- One.\nSELECT 1\n", "SELECT 1;\n--- One.\n"]
)
def test_what_is_no_scenario_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ValueError, match=r"^(line|the statement in line|a statement is in no)"):
        played(text, tmp_path)
