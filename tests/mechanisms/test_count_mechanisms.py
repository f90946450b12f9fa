"""Mechanisms with a public range, by name: what they cost, exactly, and what they say."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from tallyveil.audit.matrices import columns_of, tightest_alpha
from tallyveil.boundary import TrueAnswer, issue_receipt
from tallyveil.errors import InvalidParameterValue, ReceiptError
from tallyveil.mechanisms import Adjacency, CountMechanism, canonical, counts, mechanism
from tallyveil.mechanisms.matrix.count_matrix import CountMatrix
from tallyveil.mechanisms.units import exp_below
from tallyveil.workload.workload import Column, Workload
from tests.goodness import surprise

ADD_REMOVE = Adjacency("add_remove")
KEY = b"key"
SPECS = [
    "truncated_geometric(n=6)",
    "fair(n=1)",
    "fair(n=7)",
    "weakly_honest(n=4)",
    "designed(n=5, properties=cm, objective=l1, over=max)",
    "designed(n=6, beyond=1)",
]
EVERY = pytest.mark.parametrize("spec", SPECS)


def noise_of(spec: str) -> CountMechanism:
    noise = mechanism(spec)
    assert isinstance(noise, CountMechanism)
    return noise


def moving(step: int) -> Workload:
    """One count, that a record of one kind moves by ``step``."""
    at = np.zeros(1, dtype=np.int64)
    return Workload("t", (Column.joint(("a",), (2,), 1, at, at, at + step),))


def release(noise: CountMechanism, truth: int, draws: int, scale: float) -> tuple[int, ...]:
    answer = TrueAnswer(KEY, [[truth] * draws])
    (values,) = noise.release(answer, issue_receipt(1, KEY, [scale]))
    return values


def law(matrix: CountMatrix, truth: int) -> list[Fraction]:
    return [matrix.probability(i, truth) for i in range(matrix.n + 1)]


def test_every_family_has_a_law_of_its_own() -> None:
    """None is answered by another's under its own name."""
    for family in counts.FAMILIES:
        assert CountMechanism(family, 3).matrix(1.5).n == 3
    with pytest.raises(ValueError, match="no law is known for unwritten"):
        CountMechanism("unwritten", 3).matrix(1.5)


@EVERY
@pytest.mark.parametrize("scale", [0.02, 0.7, 3.0, 20.0, 1e6])
def test_the_charge_covers_the_exact_ratio_of_every_two_truths(spec: str, scale: float) -> None:
    """In rationals: e^charge is at least the largest ratio, for one step and for several."""
    noise = noise_of(spec)
    matrix = noise.matrix(scale)
    for step in range(1, noise.n + 1):
        charged = noise.loss(moving(step), [scale], ADD_REMOVE, "epsilon").bound
        least = exp_below(min(Fraction(charged, 10**12), Fraction(1000)))
        for j in range(noise.n + 1 - step):
            here, there = law(matrix, j), law(matrix, j + step)
            for p, q in zip(here, there, strict=True):
                assert p <= least * q
                assert q <= least * p
    assert (
        tightest_alpha(columns_of(matrix), any_two=False)
        * exp_below(min(1 / Fraction(scale), Fraction(1000)))
        >= 1
    )


@EVERY
@pytest.mark.parametrize("scale", [0.7, 3.0])
def test_the_cost_in_rho_bounds_the_renyi_divergence(spec: str, scale: float) -> None:
    noise = noise_of(spec)
    table = noise.matrix(scale).probabilities()
    for step in range(1, noise.n + 1):
        charged = noise.loss(moving(step), [scale], ADD_REMOVE, "rho").bound / 1e12
        p, q = table[:, :-step], table[:, step:]
        for a in (1.0001, 1.5, 2.0, 8.0):
            for one, other in ((p, q), (q, p)):
                divergence = np.log((one**a * other ** (1 - a)).sum(axis=0)) / (a - 1)
                assert (divergence <= a * charged * (1 + 1e-9) + 1e-9).all()


@EVERY
@pytest.mark.parametrize("truth", [-3, 0, 1, 10**30])
def test_releases_follow_the_column_of_the_truth_within_the_range(spec: str, truth: int) -> None:
    """χ² on 5,000 draws, that a sound sampler fails once in 10⁸ runs."""
    noise = noise_of(spec)
    column = law(noise.matrix(2.0), min(max(truth, 0), noise.n))
    drawn = release(noise, truth, 5000, 2.0)
    assert set(drawn) <= set(range(noise.n + 1))
    assert surprise(drawn, dict(enumerate(map(float, column)))) > 1e-8


def test_its_worst_error_is_that_of_the_worst_truth() -> None:
    noise = noise_of("fair(n=7)")
    table, i = noise.matrix(2.0).probabilities(), np.arange(8)
    errors = [float(((i - j) ** 2 * table[:, j]).sum()) for j in range(8)]
    assert noise.worst_error(2.0) == pytest.approx(max(errors))
    assert noise.worst_error(0.0) == noise.spread(0.0) == 0


def test_intervals_hold_what_they_promise_and_the_widest_is_one_of_them() -> None:
    noise, confidence = noise_of("weakly_honest(n=4)"), Fraction(9, 10)
    matrix, widths = noise.matrix(1.0), []
    for value in range(5):
        low, high = noise.interval(1.0, value, confidence)
        row = [matrix.probability(value, j) for j in range(5)]
        assert sum(row[low : high + 1]) >= confidence * sum(row)
        widths.append(high - low)
    assert noise.widest(1.0, confidence) == max(widths)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("fair", "fair"),
        ("LAPLACE", "laplace"),
        ("EM", "fair"),
        ("GM(n=4)", "truncated_geometric(n=4)"),
        ("wh(n=4)", "weakly_honest(n=4)"),
        ("WM(n=9)", "designed(n=9, properties=ch+cm+rh+rm+wh)"),
        ("WM", "designed(properties=ch+cm+rh+rm+wh)"),
        ("best(n=9, objective=l1)", "designed(n=9, objective=l1)"),
        (" Fair ( N = 020 ) ", "fair(n=20)"),
        ("designed(properties=wh + cm,n=9)", "designed(n=9, properties=ch+cm+wh)"),
        ("designed(n=9,properties=CM,objective=L0)", "designed(n=9, properties=ch+cm+wh)"),
        ("designed(over=max, beyond=2, n=9)", "designed(n=9, beyond=2, over=max)"),
        ("designed(n=9, objective=l2, over=sum)", "designed(n=9, objective=l2)"),
    ],
)
def test_a_mechanism_has_one_name(text: str, name: str) -> None:
    assert canonical(text) == canonical(name) == name
    if "n=" in name or name == "laplace":
        assert mechanism(text) == mechanism(name)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "fair(",
        "fair(20)",
        "fair(n=20",
        "fair(n=20, n=20)",
        "fair(n=20,)",
        "fair(n=0)",
        "fair(n=-3)",
        "fair(n=2.5)",
        "fair(n=nan)",
        "fair(n=501)",
        "fair(n=99999999999999999999)",
        "fair(properties=wh)",
        "fair(n=9, properties=wh)",
        "wm(n=9, properties=wh)",
        "um(n=9)",
        "designed(n=9, properties=xy)",
        "designed(n=9, objective=l3)",
        "designed(n=9, objective=l1, beyond=2)",
        "designed(n=9, beyond=9)",
        "designed(n=4, beyond=9)",
        "designed(n=9, over=min)",
        "laplace(n=20)",
        "gumbel(n=20)",
        "fair(n=20)x",
        "fair(n=20" + " " * 10**6 + ")",
    ],
)
def test_what_is_no_mechanism_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameterValue):
        canonical(text)


def test_a_ledger_is_read_whatever_is_offered_now() -> None:
    noise = noise_of("fair(n=100000)")
    assert noise.loss(moving(1), [10.0], ADD_REMOVE, "epsilon").bound == 10**11
    with pytest.raises(InvalidParameterValue, match="largest possible count"):
        noise.matrix(10.0)


def test_what_would_cost_more_than_was_charged_is_not_released(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(counts, "alpha_for", lambda epsilon: Fraction(1, 2))
    receipt = issue_receipt(1, KEY, [123.0])
    with pytest.raises(ReceiptError, match="less private"):
        noise_of("fair(n=3)").release(TrueAnswer(KEY, [[1]]), receipt)
    assert not receipt._spent


@pytest.mark.parametrize(
    "relation",
    [
        Adjacency("add_remove"),
        Adjacency("add_remove", max_rows=2),
        Adjacency("replace"),
        Adjacency("replace", complete=True),
    ],
    ids=repr,
)
def test_the_charge_covers_every_unit_by_brute_force(relation: Adjacency) -> None:
    """All units, in overlapping rows, by the matrix's own ratios of truths d apart."""
    rng, noise, scale = np.random.default_rng(8), noise_of("fair(n=6)"), 1.7
    logs = np.log(noise.matrix(scale).probabilities())
    apart = [0.0] + [np.abs(logs[:, d:] - logs[:, :-d]).max() for d in range(1, 7)]
    for _ in range(20):
        coefficients = rng.integers(0, 2, (3, 4))
        coefficients[0, 0] = 1
        rows, cells = np.nonzero(coefficients)
        column = Column.joint(("a",), (4,), 3, rows, cells, np.ones_like(rows))
        charged = noise.loss(Workload("t", (column,)), [scale], relation, "epsilon").bound / 1e12
        records = list(coefficients.T)
        if relation.neighbours == "replace":
            ends = records if relation.closed else [*records, np.zeros(3, dtype=np.int64)]
            units = [a - b for a in ends for b in ends]
        else:
            units = [sum(unit) for unit in product(records, repeat=relation.max_rows)]
        lost = max(sum(apart[abs(d)] for d in unit.tolist()) for unit in units)
        assert lost <= charged + 1e-9


@EVERY
def test_a_claim_has_the_posteriors_mass_and_an_answer_its_mean_squared_error(spec: str) -> None:
    """By Bayes' rule in rationals, from the matrix, for a flat prior on 0..n."""
    noise = noise_of(spec)
    matrix = noise.matrix(1.5)
    for value in range(noise.n + 1):
        likelihood = [law(matrix, truth)[value] for truth in range(noise.n + 1)]
        if not any(likelihood):
            continue
        posterior = [p / sum(likelihood) for p in likelihood]
        for low, high in [(None, None), (0, 0), (1, None), (None, 1), (-5, 2), (2, 99), (99, 100)]:
            inside = sum(
                p
                for truth, p in enumerate(posterior)
                if (low is None or truth >= low) and (high is None or truth <= high)
            )
            assert noise.probability(1.5, value, low, high) == inside
        squared = sum(p * (truth - value) ** 2 for truth, p in enumerate(posterior))
        assert noise.deviation(1.5, value) == pytest.approx(math.sqrt(squared), rel=1e-12)
