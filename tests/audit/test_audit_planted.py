"""The audit passes what is right, and sees every mistake that is planted."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from tallyveil.arrays import IntArray
from tallyveil.audit import Finding, audit, audits
from tallyveil.audit.matrices import (
    columns_of,
    divergence,
    flaw,
    largest_divergence,
    law_findings,
    matrix_findings,
    tightest_alpha,
)
from tallyveil.audit.noise import bounded, follows, noise_findings
from tallyveil.audit.records import counted, grid_chances, grid_finding
from tallyveil.cli.app import app
from tallyveil.errors import InvalidParameterValue, UnprovenPrivacy
from tallyveil.inference import DiscreteGaussianLaw
from tallyveil.mechanisms import (
    Adjacency,
    DiscreteGaussian,
    DiscreteLaplace,
    counts,
    registry,
)
from tallyveil.mechanisms.matrix.count_matrix import CountMatrix, prove_pure
from tallyveil.mechanisms.matrix.explicit import explicit_fair, geometric, randomised_response
from tallyveil.mechanisms.matrix.named import NAMED, Named
from tallyveil.mechanisms.noise.exact_draws import Integers, RandomWords
from tallyveil.mechanisms.records import (
    ClampedLaplace,
    RandomisedResponse,
    SeriesNoise,
    SetResponse,
)
from tallyveil.mechanisms.records.record_response import DRAWS
from tallyveil.mechanisms.units import exp_below

ONE = Fraction(1)
HALF = Fraction(1, 2)
SAMPLE = 20_000


def failing(findings: Any) -> set[str]:
    """The claims that fail, without their numbers."""
    return {" ".join(f.claim.split()[:2]) for f in findings if not f.holds}


def test_everything_passes() -> None:
    """Every mechanism there is, on about 120 checks, of which those on draws err with 10⁻⁹ each."""
    findings = list(audit([], [ONE], 1_000))
    assert [f for f in findings if not f.holds] == []
    audited = {f.mechanism.split(" at ")[0] for f in findings}
    assert audited == set(audits())
    assert {"laplace", "gaussian", "geometric", "GM", "EM", "clamped-laplace"} <= audited
    assert any(f.exact for f in findings)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1, 4), ONE, Fraction(5)])
def test_everything_passes_on_many_draws(epsilon: Fraction) -> None:
    assert failing(audit([], [epsilon], 50_000)) == set()


class Noise(DiscreteLaplace):
    """Discrete Laplace noise with something done to each draw."""

    spoil: Callable[[int], int]

    def __init__(self, spoil: Callable[[int], int], stretch: float = 1.0) -> None:
        self.spoil = spoil
        self.stretch = stretch

    def draw(self, scale: float, count: int) -> Integers:
        drawn = super().draw(scale * self.stretch, count)
        return np.array([self.spoil(noise) for noise in drawn.tolist()], dtype=np.int64)


class NarrowGaussian(DiscreteGaussian):
    def draw(self, scale: float, count: int) -> Integers:
        return super().draw(scale / 2, count)


def same(noise: int) -> int:
    return noise


def up_at_times(noise: int) -> int:
    return noise + (random.random() < 0.2)


@pytest.mark.parametrize(
    ("family", "epsilon", "draws", "claims"),
    [
        (Noise(same, 0.5), ONE, 5_000, {"epsilon at", "drawn from"}),
        (Noise(lambda k: max(-3, min(3, k))), ONE, 10_000, {"epsilon at", "drawn from"}),
        (Noise(up_at_times), ONE, 10_000, {"unbiased", "drawn from"}),
        (Noise(lambda k: k // 2 * 2), ONE, 5_000, {"epsilon at", "drawn from"}),
        (Noise(lambda k: math.trunc(k - 0.5)), HALF, 10_000, {"unbiased", "drawn from"}),
        (NarrowGaussian(), Fraction(3, 2), 5_000, {"epsilon at", "drawn from"}),
    ],
    ids=["scale halved", "cut off", "rounded up", "even", "truncated floats", "sigma halved"],
)
def test_wrong_noise_is_seen(family: Any, epsilon: Fraction, draws: int, claims: set[str]) -> None:
    """The fewer draws, the plainer the mistake: none is missed once in a million runs."""
    assert claims <= failing(noise_findings(family, epsilon, draws))


def test_noise_that_is_paid_too_little_for_is_seen() -> None:
    """Scales too small for the cost, at a charge that does not know."""

    class Cheap(DiscreteLaplace):
        def scales_for(self, *arguments: Any) -> tuple[float, ...]:
            return tuple(scale * 0.99 for scale in super().scales_for(*arguments))

    assert "charged for" in failing(noise_findings(Cheap(), ONE, 1000))


def test_noise_that_loses_without_bound_is_seen() -> None:
    """Of a law that is no ε-DP, whatever its mechanism charges for it in ε."""

    class Unbounded(DiscreteLaplace):
        def law(self, scale: float) -> Any:
            return DiscreteGaussianLaw(scale)

    assert "charged for" in failing(noise_findings(Unbounded(), ONE, 1000))


class Unmoved(DiscreteLaplace):
    """As if replacing a record moved one count only."""

    def scales_for(
        self, workload: Any, cost: Any, relation: Adjacency, measure: Any, like: Any = None
    ) -> tuple[float, ...]:
        return super().scales_for(workload, cost, Adjacency("add_remove"), measure, like)


class Hasty(DiscreteLaplace):
    """Half the noise as soon as records are replaced; charged as if it were all there."""

    def scales_for(
        self, workload: Any, cost: Any, relation: Adjacency, measure: Any, like: Any = None
    ) -> tuple[float, ...]:
        self.stretch = 0.5 if relation.neighbours == "replace" else 1.0
        return super().scales_for(workload, cost, relation, measure, like)

    def draw(self, scale: float, count: int) -> Integers:
        return super().draw(scale * self.stretch, count)


@pytest.mark.parametrize(("make", "claim"), [(Unmoved, "charged for"), (Hasty, "epsilon at")])
def test_noise_that_is_wrong_under_replace_alone_is_seen(make: type[Any], claim: str) -> None:
    findings = list(noise_findings(make(), ONE, 5_000))
    wrong = {f.mechanism for f in findings if f.claim.startswith(claim) and not f.holds}
    assert wrong
    assert all(name.endswith(", replace") for name in wrong)


@pytest.mark.parametrize("family", ["GM", "WH", "WM", "EM"])
def test_a_release_that_draws_from_another_law_is_seen(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The matrix is right, and what is released comes from the one at α²."""
    drawn, wrong = counts.draw, cache(NAMED[family].make)

    def spoiled(matrix: CountMatrix, truth: int) -> int:
        return drawn(wrong(matrix.n, matrix.alpha**2), truth)

    assert failing(matrix_findings(NAMED[family], ONE, 1000)) == set()
    monkeypatch.setattr(counts, "draw", spoiled)
    assert {"epsilon at", "drawn from"} <= failing(matrix_findings(NAMED[family], ONE, 5000))


def test_the_command_says_so_loudly(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = Noise(same, 0.5)
    monkeypatch.setitem(registry._families, "laplace", wrong)
    command = ["audit", "laplace", "--epsilon", "1", "--draws", "5000"]
    shown = CliRunner().invoke(app, [*command, "EM"])
    assert shown.exit_code == 1
    assert "FAILS" in shown.stdout
    assert shown.stderr.startswith("AUDIT FAILED: ")
    assert "laplace" in shown.stderr
    assert "EM" not in shown.stderr
    as_json = CliRunner().invoke(app, [*command, "--json"])
    assert as_json.exit_code == 1
    report = json.loads(as_json.stdout)
    assert report["failed"] == sum(not check["holds"] for check in report["checks"]) > 0


def matrix_claims(columns: Sequence[Sequence[Fraction]], epsilon: Fraction) -> set[str]:
    return failing(law_findings("planted", {"n": columns}, epsilon, any_two=False))


def test_the_formula_for_even_n_fails_at_odd_n() -> None:
    """COUNT eq. 15 as printed: right at n = 8, and no law at n = 7, where √α has to be met."""
    alpha = Fraction(81, 100)
    epsilon = Fraction(22, 100)  # above −ln 0.81 = 0.2107
    for n, half_power in ((8, alpha**5), (7, alpha**4 * Fraction(9, 10))):
        # α^{n/2+1}, and √0.81 = 0.9
        y = (1 - alpha) / (1 + alpha - 2 * half_power)
        right = columns_of(explicit_fair(n, alpha))
        printed = [[p * y / right[0][0] for p in column] for column in right]
        assert matrix_claims(right, epsilon) == set()
        assert matrix_claims(printed, epsilon) == (set() if n == 8 else {"probabilities, n"})


def test_a_ratio_broken_by_rounding_is_seen() -> None:
    """Four digits a column, the rest given to the largest."""
    exact = columns_of(geometric(6, Fraction(1, 3)))
    rounded = []
    for column in exact:
        cut = [Fraction(math.floor(p * 10_000), 10_000) for p in column]
        cut[column.index(max(column))] += 1 - sum(cut)
        rounded.append(cut)
    epsilon = Fraction(11, 10)  # above ln 3 = 1.0986
    assert matrix_claims(exact, epsilon) == set()
    assert matrix_claims(rounded, epsilon) >= {"alpha at"}


def test_a_column_that_is_off_by_one_is_seen() -> None:
    matrix = geometric(4, HALF)
    columns = [list(column) for column in columns_of(matrix)]
    columns[2][1] += Fraction(1, matrix.total)
    assert flaw(columns) == f"truth 2 adds up to {1 + 1 / matrix.total:.9g}"
    assert matrix_claims(columns, ONE) == {"probabilities, n"}


def test_a_family_that_fails_its_own_proof_is_a_finding() -> None:
    def off(n: int, alpha: Fraction) -> CountMatrix:
        weights = [list(column) for column in geometric(n, alpha).weights]
        weights[0][0] += 1
        return CountMatrix("OFF", alpha, weights)

    (finding,) = matrix_findings(Named("OFF", "", "", off), ONE, 1000)
    assert not finding.holds
    assert "different totals" in finding.found


def test_draws_from_another_matrix_are_seen() -> None:
    """Outputs of GM at α², said to be at α: refuted by the bound and by the law."""
    truth, alpha = 3, Fraction(1, 3)
    claimed = geometric(7, alpha)
    chances = geometric(7, alpha**2).probabilities()
    draw = np.random.default_rng(1)
    first, second = (draw.choice(8, SAMPLE, p=chances[:, j]) for j in (truth, truth + 1))
    assert not bounded("planted", first, second, claimed.epsilon, Fraction(0)).holds
    assert not follows("planted", first, (0, claimed.probabilities()[:, truth])).holds


def test_a_response_that_keeps_too_often_is_seen() -> None:
    law = RandomisedResponse(4, ONE)
    assert failing(law_findings("right", {"": counted(law)}, ONE, any_two=True)) == set()
    law.change -= 1
    law.kept += 3
    claims = failing(law_findings("planted", {"": counted(law)}, ONE, any_two=True))
    assert "alpha at" in claims


@pytest.mark.parametrize("cells", [2, 3, 5, 10])
def test_counted_draws_are_those_of_the_law(cells: int) -> None:
    law = RandomisedResponse(cells, HALF)
    for code, column in enumerate(counted(law)):
        assert column[code] == Fraction(law.kept, DRAWS)
        assert sum(column) == 1
        assert {p for k, p in enumerate(column) if k != code} == {Fraction(law.change, DRAWS)}


@pytest.mark.parametrize("spoiled", ["kept", "place"])
def test_a_set_that_tells_too_much_is_seen(spoiled: str) -> None:
    class Spoiled(SetResponse):
        def outcome(self, codes: IntArray, draws: RandomWords) -> IntArray:
            """A draw in a thousand of those that lead furthest away leads to the set itself."""
            outputs = super().outcome(codes, draws)
            if spoiled == "kept":
                return outputs
            return np.where(draws >= np.uint64(self.draws - self.change // 1000), codes, outputs)

    law = SetResponse((2, 2, 2), ONE)
    assert failing(law_findings("right", {"": counted(law)}, ONE, any_two=True)) == set()
    planted = Spoiled((2, 2, 2), ONE)
    if spoiled == "kept":
        planted.change -= 2**20
        planted.draws = planted.near * planted.kept + (8 - planted.near) * planted.change
    laws = {"": counted(planted)}
    assert "alpha at" in failing(law_findings("planted", laws, ONE, any_two=True))


@pytest.mark.parametrize("make", [lambda: ClampedLaplace(9, ONE), lambda: SeriesNoise(2, 5, ONE)])
@pytest.mark.parametrize("spoiled", ["scale", "flag", "middle"])
def test_a_grid_with_too_little_noise_is_seen(spoiled: str, make: Callable[[], Any]) -> None:
    law = make()
    assert grid_finding("right", law, ONE).holds
    if spoiled == "scale":
        law.scale = law.scale * (1 - 2**-50) if law.times > 1 else math.nextafter(law.scale, 0)
    elif spoiled == "flag":
        law.flag = RandomisedResponse(2, Fraction(6, 10))
    else:
        law.middle = 0
    assert not grid_finding("planted", law, ONE).holds


class OneDrawTooFew(SeriesNoise):
    """As if P(R = r) ∝ a^r (2r+1)^(k−1)."""

    def _radii(self, count: int) -> IntArray:
        return SeriesNoise(1, self.size, ONE)._radii(count)


class OneSided(SeriesNoise):
    def _noise(self, count: int) -> IntArray:
        return np.abs(super()._noise(count))


@pytest.mark.parametrize("make", [OneDrawTooFew, OneSided])
def test_a_series_drawn_in_another_way_is_seen(make: type[SeriesNoise]) -> None:
    right, planted = SeriesNoise(2, 8, ONE), make(2, 8, ONE)
    chances = grid_chances(right, 9)
    codes = np.full(SAMPLE, 9, dtype=np.int64)
    assert follows("right", right.perturb(codes), (0, chances)).holds
    assert not follows("planted", planted.perturb(codes), (0, chances)).holds


@pytest.mark.parametrize("n", [1, 2, 5, 6])
@pytest.mark.parametrize("make", [geometric, explicit_fair, randomised_response])
def test_both_proofs_agree(make: Callable[..., CountMatrix], n: int) -> None:
    """Rational numbers here, integers in `mechanisms.matrix`."""
    matrix = make(n, Fraction(2, 3))
    columns = columns_of(matrix)
    tightest = tightest_alpha(columns, any_two=False)
    prove_pure(matrix.weights, tightest)
    with pytest.raises(UnprovenPrivacy, match="distinguishes truth"):
        prove_pure(matrix.weights, tightest + Fraction(1, 10**30))
    for epsilon in (Fraction(1, 10), Fraction(3, 10)):
        found = divergence(columns, exp_below(epsilon), any_two=False)
        factor, excess = exp_below(epsilon), []
        for a, b in pairwise(matrix.weights):
            for one, other in ((a, b), (b, a)):
                excess.append(sum(max(0, x - factor * y) for x, y in zip(one, other, strict=True)))
        assert found == max(excess) / matrix.total
        assert found <= largest_divergence(Fraction(2, 3), exp_below(epsilon))


def test_one_bit_of_randomised_response_reaches_the_largest_divergence() -> None:
    columns = columns_of(randomised_response(1, Fraction(1, 4)))
    for factor in (ONE, Fraction(2), Fraction(7, 2), Fraction(5)):
        found = divergence(columns, factor, any_two=False)
        assert found == largest_divergence(Fraction(1, 4), factor)


@pytest.mark.parametrize(
    "arguments",
    [
        ((["nonsense"]), [ONE], 5000),
        ([], [], 5000),
        ([], [Fraction(1, 10_000)], 5000),
        ([], [Fraction(50)], 5000),
        ([], [math.nan], 5000),
        ([], [ONE], 10),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_drawn(arguments: Any) -> None:
    with pytest.raises(InvalidParameterValue):
        audit(*arguments)


def test_a_finding_is_a_value() -> None:
    finding: Any = Finding("EM", "claim", "found", True, True)
    with pytest.raises(AttributeError):
        finding.holds = False
