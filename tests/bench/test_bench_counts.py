"""The measurements of COUNT run, at sizes too small to say much, and print what they say."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from bench import counts


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Any:
    def printed() -> list[dict[str, Any]]:
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return printed


def test_the_scores_are_those_of_closed_forms(lines: Any) -> None:
    """GM costs 2α/(1+α) (COUNT Thm 3), UM 1, and EM (n+1)/n (1−y) with y of eq. 16."""
    counts.weakly_honest_scores([3, 7], [Fraction(1, 2)])
    counts.final_scores([2, 8], [Fraction(9, 10)])
    found = lines()
    assert [line["bench"] for line in found] == ["8a", "8a", "8b", "9", "9"]
    for line in found:
        alpha, scores = float(Fraction(line["alpha"])), line["L0"]
        assert scores["GM"] == pytest.approx(2 * alpha / (1 + alpha), abs=1e-6)
        assert scores["GM"] == min(scores.values())
    assert len(found[0]["L0"]) == len(counts.COMBINATIONS) + 2
    assert found[1]["L0"]["none"] == pytest.approx(found[1]["L0"]["GM"], abs=1e-6)
    assert found[2]["L0"]["RM CM"] == pytest.approx(found[2]["L0"]["GM"], abs=1e-6)
    y = (1 - 0.9) / (1 + 0.9 - 2 * 0.9**5)
    assert found[4]["L0"]["EM"] == pytest.approx(9 / 8 * (1 - y), abs=1e-6)
    assert found[4]["L0"]["UM"] == 1


def test_what_is_measured_agrees_with_what_the_law_says(lines: Any, tmp_path: Path) -> None:
    """Seeded, so it cannot fail by chance; 8 standard errors leave room for few repetitions."""
    counts.binomial(people=240, repeats=20)
    people = tmp_path / "adult.csv"
    rows = [f"{20 + k % 50},{'Male' if k % 3 else 'Female'},>50K" for k in range(60)]
    people.write_text("\n".join(["age,sex,income", *rows]))
    counts.adult(people, ns=(2, 3), repeats=20)
    found = lines()
    assert {line["bench"] for line in found} == {"10", "11", "12", "13"}
    assert len(found) == 3 * 2 * 2 + 2 * (3 * 7 * 2 + 2 * 8)
    for line in found:
        for name in counts.FAMILIES:
            mean, error, expected = (line[name][key] for key in ("mean", "stderr", "expected"))
            assert abs(mean - expected) <= 8 * error + 0.02, line
        if line["bench"] == "10":
            assert line["UM"]["expected"] == pytest.approx(line["n"] / (line["n"] + 1), abs=1e-5)


def test_what_is_missing_is_said(lines: Any, tmp_path: Path) -> None:
    counts.adult(tmp_path / "none.csv")
    assert "none.csv" in lines()[0]["skipped"]


def test_designs_and_derivability(lines: Any) -> None:
    """At n = 3, α = 0.9 neither WM nor EM is derivable from GM, and GM is (COUNT §IV-D)."""
    counts.derivability([3])
    counts.solving([4], 1)
    derivable, *designs = lines()
    assert derivable["derivable"] == {
        "GM": True, "WH": False, "WM": False, "EM": False, "UM": True,
    }  # fmt: skip
    assert len(designs) == 3
    assert all(line["ms"] > 0 and line["score"] > 0 for line in designs)


@pytest.mark.slow
def test_every_figure_is_drawn(lines: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib", reason="the extra plot is not installed")
    from bench import count_plots

    counts.weakly_honest_scores([2, 3], [Fraction(1, 2), Fraction(3, 5)])
    counts.final_scores([2, 4], [Fraction(1, 2), Fraction(3, 5)])
    counts.binomial(people=48, repeats=2)
    monkeypatch.setattr("sys.argv", ["count_plots", str(tmp_path)])
    text = [json.dumps(line) for line in lines()]
    monkeypatch.setattr("sys.stdin", iter(text))
    count_plots.main()
    drawn = {path.name for path in tmp_path.iterdir()}
    assert drawn == {f"counts-{figure}.png" for figure in (8, 9, 11, 12, 13)}
