"""The measurements of inference run, at sizes too small to say much, and print what they say."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import bayes, bayes_answering, inference


@pytest.fixture
def lines(capsys: pytest.CaptureFixture[str]) -> Any:
    def printed() -> list[dict[str, Any]]:
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return printed


def test_answers_from_histories_are_timed(lines: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference, "REPEATS", 2)
    inference.measure(40, 30, "discrete laplace")
    inference.measure(30, 40, "discrete gaussian")
    inference.purchases((3,))
    one, two, *bought = lines()
    for line in (one, two):
        assert line["answer_cpu_ms"] > 0
        assert 0 < line["estimate"]["p50_ms"] <= line["answer"]["p50_ms"]
        assert line["eq51_x"] >= 0
    assert [line["noise"] for line in bought] == list(inference.FAMILIES)


def test_running_times_and_errors_of_the_paper(lines: Any) -> None:
    bayes.estimates([(80, 10), (120, 10)], "m", repeats=2)
    bayes.methods([160, 200], [12, 20], [1.0, 8.0], [5000])
    found = lines()
    assert [line["bench"] for line in found] == ["5"] * 2 + ["posterior"] * 7
    assert all(line["rank"] == 10 for line in found[:2])
    for line in found[2:]:
        assert 0 <= line["inversion_apart"] <= 1e-9
        assert 0 < line["probability_calculation_error"] < 0.1
        # Markov: above 10⁶ times its expectation with a probability below 10⁻⁶.
        assert 0 < line["monte_carlo_error"] < 1e6 * line["monte_carlo_bound"]
        assert line["prescribed"] >= 10_000
    narrow, wide = (line for line in found if line["against"] == "beta")
    assert wide["beta"] == pytest.approx(64 * narrow["beta"], rel=1e-3)
    assert wide["probability_calculation_error"] < narrow["probability_calculation_error"]


@pytest.mark.parametrize("setting", ["bounded", "unbounded"])
def test_systems_answer_as_they_say(lines: Any, setting: str) -> None:
    """150 seeded queries, so it cannot fail by chance."""
    data = bayes_answering.histogram()
    for name in ("baseline", "ols", "paper"):
        bayes_answering.answering(setting, name, data, 150, [8])
    found = {line["system"]: line for line in lines()}
    baseline, paper = found["baseline"], found["paper"]
    for line in found.values():
        assert line["charged_when_covered"] == 0
        assert line["R_i"] >= 0.8 - 4 * line["R_i_deviation"]
        assert line["after"][-1] == 150
        assert line["curves"]["R_a"][-1] == line["R_a"]
        assert line["cost"] <= (1 if setting == "bounded" else math.inf)
    assert baseline["covered"] == 0 < paper["covered"]
    assert paper["E"] < baseline["E"]
    if setting == "bounded":
        assert paper["R_a"] > baseline["R_a"]
    else:
        assert baseline["R_a"] == paper["R_a"] == 1
        assert paper["cost"] < baseline["cost"]


@pytest.mark.slow
def test_the_gate_answers_as_many_as_the_paper_s_rule(lines: Any) -> None:
    """Through SQL. What is answered depends on noise laws alone, and not on what is drawn."""
    for name in ("paper", "gate"):
        bayes_answering.answering("bounded", name, bayes_answering.histogram(), 100, [8])
    paper, gate = lines()
    assert gate["R_a"] >= paper["R_a"] - 0.05
    assert gate["covered"] >= 0.4
    assert gate["charged_when_covered"] == 0
    assert gate["cost"] <= 1


def test_a_tree_is_history_of_the_gate_too(lines: Any) -> None:
    bayes_answering.answering("unbounded", "gate", bayes_answering.histogram(), 10, [1])
    [gate] = lines()
    assert gate["R_a"] == 1
    assert gate["covered"] >= 0.5


def test_the_histogram_is_that_of_capital_gains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    rows = "capital-gain\n0\n499\n500\n99999\n"
    (tmp_path / "data" / "adult.csv").write_text(rows)
    monkeypatch.setenv("SHARED", str(tmp_path))
    name, counts = bayes_answering.histogram()
    assert "capital-gain" in name
    assert counts[[0, 1, 39]].tolist() == [2, 1, 1]
    assert counts.sum() == 4


def test_eq_73_sums_to_one_and_prefers_the_first_cells() -> None:
    drawn = np.sum(list(bayes_answering.queries(400, np.random.default_rng(1))), axis=0)
    assert drawn[:10].sum() > 0.85 * drawn.sum()
    assert len(drawn) == 40


@pytest.mark.slow
def test_every_figure_of_the_paper_is_drawn(
    lines: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib", reason="the extra plot is not installed")
    from bench import bayes_plots

    bayes.estimates([(80, 10)], "m", repeats=1)
    bayes.estimates([(80, 10)], "n", repeats=1)
    bayes.methods([160], [20], [1.0, 2.0], [1000])
    data = bayes_answering.histogram()
    for setting in ("bounded", "unbounded"):
        bayes_answering.answering(setting, "paper", data, 20, [1])
    monkeypatch.setattr("sys.argv", ["bayes_plots", str(tmp_path)])
    text = [json.dumps(line) for line in lines()]
    monkeypatch.setattr("sys.stdin", iter(text))
    bayes_plots.main()
    drawn = {path.name for path in tmp_path.iterdir()}
    assert drawn == {f"bayes-{figure}.png" for figure in range(5, 11)}
