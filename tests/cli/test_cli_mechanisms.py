"""The commands that look at mechanisms, and the audit's table."""

from __future__ import annotations

import builtins
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tallyveil.cli.app import app


def shell(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_the_list_names_every_mechanism_and_its_guarantee() -> None:
    rows = json.loads(shell("mechanism", "list", "--json").stdout)
    assert {"laplace", "gaussian", "GM", "WM", "EM", "EXP", "UM", "best"} <= {
        row["name"] for row in rows
    }
    assert all(row["guarantee"] for row in rows)
    assert "explicit fair" in shell("mechanism", "list").stdout


def test_showing_the_explicit_fair_mechanism() -> None:
    """y at n = 7, α = 0.9, and L0 at n = 8: MATH §5's values."""
    found = json.loads(shell("mechanism", "show", "em", "--n", 7, "--alpha", 0.9, "--json").stdout)
    assert found["probabilities"][3][3] == pytest.approx(0.1530432653, abs=1e-10)
    assert len(found["properties"]) == 7
    assert found["alpha"] == "9/10"
    found = json.loads(shell("mechanism", "show", "EM", "--n", 8, "--alpha", 0.9, "--json").stdout)
    assert found["losses"]["L0"] == pytest.approx(0.9685370, abs=1e-7)
    text = shell("mechanism", "show", "EM", "--n", 7, "--alpha", "9/10").stdout
    assert "0.1530" in text
    assert "F (fair)" in text
    assert "guarantee: " in text


def test_the_best_for_properties_and_an_objective() -> None:
    ask = ("mechanism", "show", "best", "--n", 4, "--alpha", 0.9, "--json")
    found = json.loads(shell(*ask, "--properties", "WH,RM,CM").stdout)
    assert found["losses"]["L0"] == pytest.approx(0.9654321, abs=1e-6)
    other = json.loads(shell(*ask, "--objective", "L2 max").stdout)
    assert other["losses"]["L2"] < found["losses"]["L2"]


@pytest.mark.parametrize(
    ("alpha", "properties", "like"),
    [("0.9", "F", "EM"), ("0.9", "RM", "GM"), ("0.9", "WH", "WH"), ("0.5", "CM", "GM")],
)
def test_the_flowchart_leads_to_a_mechanism(alpha: str, properties: str, like: str) -> None:
    ask = ("--n", 4, "--alpha", alpha, "--json")
    found = json.loads(shell("mechanism", "show", "AUTO", *ask, "--properties", properties).stdout)
    other = json.loads(shell("mechanism", "show", like, *ask).stdout)
    assert found["probabilities"] == other["probabilities"]


def test_showing_noise() -> None:
    """At ε = 0.1 the scale is 10; half-widths are of MATH §3's law, P(|k| ≤ 30) ≥ 0.95."""
    found = json.loads(shell("mechanism", "show", "laplace", "--epsilon", 0.1, "--json").stdout)
    assert found["scale"] == pytest.approx(10)
    assert found["half_width_95"] == 30
    found = json.loads(shell("mechanism", "show", "gaussian", "--epsilon", 0.1, "--json").stdout)
    assert (found["unit"], found["cost"]) == ("rho", pytest.approx(0.005, abs=1e-6))


def test_comparing_reproduces_the_reference_values() -> None:
    rows = shell("mechanism", "compare", "--n", "4,20", "--alpha", "9/10,10/11", "--json").stdout
    loss = {(row["n"], row["alpha"]): row["loss"] for row in map(json.loads, rows.splitlines())}
    expected = {"GM": 0.9473684, "WH": 0.9641975, "WM": 0.9654321, "EM": 0.9671945, "UM": 1.0}
    assert loss[4, "9/10"] == pytest.approx(expected, abs=1e-6)
    expected = {"GM": 0.9523810, "WH": 0.9523810, "WM": 0.9641373, "EM": 0.9709881, "UM": 1.0}
    assert loss[20, "10/11"] == pytest.approx(expected, abs=1e-6)
    table = shell("mechanism", "compare", "--n", "2", "--alpha", "0.5").stdout.splitlines()
    assert table[0].split(" | ")[2].strip() == "GM"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("show", "EM", "--n", 4), "--alpha or --epsilon"),
        (("show", "EM", "--n", 4, "--alpha", 0.5, "--epsilon", 1), "--alpha or --epsilon"),
        (("show", "EM", "--alpha", 0.5), "--n 8"),
        (("show", "nonsense", "--n", 4, "--alpha", 0.5), "Known: "),
        (("show", "EM", "--n", 4, "--alpha", "nan"), "alpha"),
        (("show", "EM", "--n", 0, "--alpha", 0.5), "from 1 to"),
        (("show", "EM", "--n", 4, "--alpha", 0.5, "--properties", "CM"), "best"),
        (("show", "best", "--n", 4, "--alpha", 0.5, "--properties", "XX"), "RH, RM"),
        (("show", "best", "--n", 4, "--alpha", 0.5, "--objective", "L7"), "L0, L0,1"),
        (("show", "auto", "--n", 4, "--alpha", 0.5, "--objective", "L1"), "chosen for best"),
        (("show", "laplace", "--n", 4, "--alpha", 0.5), "any count"),
        (("show", "EM", "--n", 4, "--alpha", 0.5, "--plot", "x.doc"), ".png"),
        (("show", "EM", "--n", 4, "--alpha", 0.5, "--plot", "no/such/x.png"), "cannot be written"),
        (("compare", "--n", "2,x"), "--n 2,4,8"),
        (("compare", "--n", "2,500"), "Compare up to"),
        (("compare", "--alpha", "1.5"), "between 0 and 1"),
    ],
)
def test_what_is_wrong_is_said(
    arguments: tuple[object, ...], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = shell("mechanism", *arguments)
    assert found.exit_code == 1
    assert words in found.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ending", [".png", ".svg", ".pdf"])
def test_drawings(ending: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra plot is not installed")
    drawing, curves = tmp_path / f"one{ending}", tmp_path / f"two{ending}"
    plotted = shell("mechanism", "show", "GM", "--n", 4, "--alpha", 0.9, "--plot", drawing)
    assert plotted.exit_code == 0, plotted.output
    over_alpha = ("compare", "--n", "4", "--alpha", "0.5,0.9", "--plot", curves)
    assert shell("mechanism", *over_alpha).exit_code == 0
    start = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}[ending]
    assert drawing.read_bytes().startswith(start)
    assert curves.read_bytes().startswith(start)


def test_without_matplotlib_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = builtins.__import__

    def absent(name: str, *arguments: Any, **more: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return found(name, *arguments, **more)

    monkeypatch.setattr(builtins, "__import__", absent)
    path = tmp_path / "x.png"
    shown = shell("mechanism", "show", "GM", "--n", 4, "--alpha", 0.9, "--plot", path)
    assert shown.exit_code == 1
    assert "pip install 'tallyveil[plot]'" in shown.stderr


def test_the_audit_prints_a_row_for_each_check() -> None:
    found = shell("audit", "EM", "randomised-response", "--epsilon", "1/2", "--draws", 2000)
    assert found.exit_code == 0, found.output
    assert "proved" in found.stdout
    assert "not refuted" in found.stdout
    header = found.stdout.splitlines()[0]
    assert [name.strip() for name in header.split("|")] == [
        "mechanism", "claim", "found", "verdict",
    ]  # fmt: skip
    report = json.loads(shell("audit", "EM", "--draws", 2000, "--json").stdout)
    assert report["failed"] == 0
    assert {"mechanism", "claim", "found", "verdict", "holds", "exact"} == set(report["checks"][0])


def test_an_audit_of_nothing_is_refused() -> None:
    for arguments in (("nonsense",), ("EM", "--epsilon", "0"), ("EM", "--draws", "3")):
        found = shell("audit", *arguments)
        assert found.exit_code == 1
        assert found.stdout == ""


def test_names_of_sql_are_understood_in_any_case() -> None:
    ask = ("--n", 4, "--alpha", 0.9)
    assert shell("mechanism", "show", "fair", *ask).stdout.startswith("EM for counts")
    design = ("--properties", "wh+cm", "--objective", "l1 max")
    paper = shell("mechanism", "show", "best", *ask, *design)
    assert paper.exit_code == 0
    assert shell("mechanism", "show", "Designed", *ask, *design).stdout == paper.stdout
    other = shell("mechanism", "show", "fair(n=4)", "--alpha", 0.9)
    assert "Here its parameters are options" in other.stderr
    audited = shell("audit", "fair", "em", "--epsilon", 1, "--draws", 1000, "--json")
    names = {check["mechanism"][:2] for check in json.loads(audited.stdout)["checks"]}
    assert names == {"EM"}
