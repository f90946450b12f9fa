"""The commands that look at mechanisms, and the audit's table."""

from __future__ import annotations

import json
import math

import pytest

from tests.cli.shell import shell


def test_the_list_names_every_mechanism_and_its_guarantee() -> None:
    rows = json.loads(shell("mechanism", "list", "--json").stdout)
    assert {"laplace", "gaussian", "GM", "WM", "EM", "RR", "EXP", "best", "auto"} <= {
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


def test_a_large_epsilon_is_honoured() -> None:
    found = json.loads(shell("mechanism", "show", "geometric", "--epsilon", 41, "--json").stdout)
    assert (found["cost"], found["scale"]) == (41, pytest.approx(1 / 41, rel=1e-5))


def test_gaussian_noise_for_epsilon_and_delta() -> None:
    """MATH §6's σ at ε = 1, δ = 10⁻⁶; what is charged is 1/(2σ²)."""
    ask = ("mechanism", "show", "gaussian", "--epsilon", 1, "--delta", "1e-6", "--json")
    found = json.loads(shell(*ask, "--calibration", "subspace").stdout)
    assert found["scale"] == pytest.approx(4.84909, abs=1e-5)
    assert found["cost"] == pytest.approx(1 / (2 * 4.84909**2), abs=2e-6)
    by_rho = json.loads(shell(*ask).stdout)
    assert (by_rho["calibration"], by_rho["delta"]) == ("zcdp", "1e-6")
    assert by_rho["scale"] == pytest.approx(4.53088, abs=1e-5)
    assert "less private" not in by_rho["guarantee"]


def test_gaussian_noise_without_a_delta_is_not_called_private_at_epsilon() -> None:
    """It is ρ-zCDP with ρ = ε²/2, which a pure ε implies, and not the other way round."""
    found = json.loads(shell("mechanism", "show", "gaussian", "--epsilon", 1, "--json").stdout)
    assert (found["unit"], found["cost"]) == ("rho", 0.5)
    assert "less private than epsilon by itself" in found["guarantee"]


def test_the_exponential_mechanism_takes_a_quality() -> None:
    """COUNT eq. 2: P[i|j] ∝ e^{ε q/2s}; on 0..n, s is 1, 2n − 1 and 1."""
    ask = ("mechanism", "show", "EXP", "--n", 3, "--epsilon", 1, "--json")
    for quality, exponents in (
        ("distance", [0, -1 / 2, -1, -3 / 2]),
        ("square", [0, -1 / 10, -4 / 10, -9 / 10]),
        ("truth", [1 / 2, 0, 0, 0]),
    ):
        found = json.loads(shell(*ask, "--quality", quality).stdout)
        weights = [math.exp(x) for x in exponents]
        expected = [weight / sum(weights) for weight in weights]
        assert [row[0] for row in found["probabilities"]] == pytest.approx(expected, abs=1e-6)


def test_weights_are_those_of_the_objective() -> None:
    """With all weight on the truth 0, telling 0 always loses nothing."""
    ask = ("mechanism", "show", "best", "--n", 3, "--alpha", 0.9, "--objective", "L1")
    found = json.loads(shell(*ask, "--weights", "1,0,0,0", "--json").stdout)
    assert found["objective"] == {"of": "L1 sum, weighted", "is": pytest.approx(0, abs=1e-6)}
    assert found["probabilities"][0] == pytest.approx([1, 1, 1, 1], abs=1e-5)
    assert "objective L1 sum, weighted: 0.000000" in shell(*ask, "--weights", "1,0,0,0").stdout


def test_whether_the_geometric_mechanism_yields_it_is_said() -> None:
    """COUNT §IV-D: EM and WM are not derivable for n > 2, GM and UM are."""
    for name, derivable in (("GM", True), ("UM", True), ("EM", False), ("WM", False)):
        ask = ("mechanism", "show", name, "--n", 4, "--alpha", 0.9)
        assert json.loads(shell(*ask, "--json").stdout)["derivable_from_geometric"] == derivable
        word = "yes" if derivable else "no"
        assert f"derivable from GM: {word}\n" in shell(*ask).stdout


def test_comparing_reproduces_the_reference_values() -> None:
    rows = shell("mechanism", "compare", "--n", "4,8,20", "--alpha", "9/10,10/11", "--json").stdout
    loss = {(row["n"], row["alpha"]): row["loss"] for row in map(json.loads, rows.splitlines())}
    expected = {"GM": 0.9473684, "WH": 0.9641975, "WM": 0.9654321, "EM": 0.9671945, "UM": 1.0}
    assert loss[4, "9/10"] == pytest.approx(expected, abs=1e-6)
    expected = {"GM": 0.9473684, "WH": 0.9616886, "WM": 0.9655116, "EM": 0.9685370, "UM": 1.0}
    assert loss[8, "9/10"] == pytest.approx(expected, abs=1e-6)
    expected = {"GM": 0.9523810, "WH": 0.9523810, "WM": 0.9641373, "EM": 0.9709881, "UM": 1.0}
    assert loss[20, "10/11"] == pytest.approx(expected, abs=1e-6)
    table = shell("mechanism", "compare", "--n", "2", "--alpha", "0.5").stdout.splitlines()
    assert table[0].split(" | ")[2].strip() == "GM"
    assert table[-1] == "Expected L0 sum loss, for a flat prior over 0..n."
    worst = shell("mechanism", "compare", "--n", "2", "--alpha", "0.5", "--objective", "L2 max")
    assert worst.stdout.splitlines()[-1] == "Expected L2 max loss, for the truth with the largest."


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


def test_names_of_sql_are_understood_in_any_case() -> None:
    ask = ("--n", 4, "--alpha", 0.9)
    assert shell("mechanism", "show", "fair", *ask).stdout.startswith("EM for counts")
    design = ("--properties", "wh+cm", "--objective", "l1 max")
    paper = shell("mechanism", "show", "best", *ask, *design)
    assert paper.exit_code == 0
    assert shell("mechanism", "show", "Designed", *ask, *design).stdout == paper.stdout
    audited = shell("audit", "fair", "em", "--epsilon", 1, "--draws", 1000, "--json")
    names = {check["mechanism"][:2] for check in json.loads(audited.stdout)["checks"]}
    assert names == {"EM"}
