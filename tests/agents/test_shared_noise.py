"""Agents that have one secret draw the noise that one sampler would draw for all of them."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from scipy import stats

from tallyveil.errors import StatementTooComplex
from tallyveil.inference import DiscreteLaplaceLaw
from tallyveil.inference.conditional.tree import Tree
from tallyveil.mechanisms.constrained import agent_noise, group_total
from tallyveil.mechanisms.constrained.agent_noise import SharedNoise, derived
from tallyveil.mechanisms.constrained.conditioned import Conditioned
from tests.goodness import surprise

FALSE_ALARM = 1e-6
SECRET = bytes(range(32))


def drawn(number: int, sizes: tuple[int, ...], scale: float) -> tuple[int, ...]:
    """What all agents draw, each by itself."""
    key = derived(SECRET, "test", number)
    each = [SharedNoise(key, "all", sizes, scale).part(n) for n in range(len(sizes))]
    return tuple(itertools.chain(*each))


def exact_law(cells: int, scale: float, most: int) -> dict[tuple[int, ...], float]:
    """P(u) ∝ e^{−Σ|u_i|/b} over Σ u_i = 0, by enumeration; what lies beyond ``most`` is nothing."""
    weights = {}
    for own in itertools.product(range(-most, most + 1), repeat=cells - 1):
        outcome = (*own, -sum(own))
        weights[outcome] = math.exp(-sum(map(abs, outcome)) / scale)
    total = math.fsum(weights.values())
    return {outcome: weight / total for outcome, weight in weights.items()}


@pytest.mark.parametrize(
    ("sizes", "scale"), [((2, 1), 1.0), ((1, 1, 1), 0.7), ((1, 0, 1), 2.0), ((4,), 0.5)]
)
def test_the_joint_law_is_that_of_the_definition(sizes: tuple[int, ...], scale: float) -> None:
    """800 draws; a false alarm in 10⁶ runs, of which there are none: the draws are always the
    same, since the secret is."""
    found = Counter(drawn(number, sizes, scale) for number in range(800))
    assert surprise(found, exact_law(sum(sizes), scale, round(30 * scale))) > FALSE_ALARM


def test_a_central_release_has_the_same_law() -> None:
    """1,500 draws of each, compared by χ² of two samples, a false alarm in 10⁶ runs."""
    law = DiscreteLaplaceLaw(2.0)
    central = Conditioned(Tree((-1, 0, 0, 0, 0), (DiscreteLaplaceLaw(0.0), law, law, law, law)))
    ours = Counter(drawn(number, (1, 3), 2.0)[1] for number in range(1_500))
    theirs = Counter(central.draw()[1] for _ in range(1_500))
    values = sorted({*ours, *theirs}, key=abs)
    common = [value for value in values if ours[value] + theirs[value] >= 20]
    rows = [
        [*(one[value] for value in common), one.total() - sum(one[value] for value in common) + 1]
        for one in (ours, theirs)
    ]
    assert stats.chi2_contingency(rows).pvalue > FALSE_ALARM


@pytest.mark.parametrize("sizes", [(5, 7), (1, 1), (0, 3), (1,), (40, 40, 40), (3, 0, 0, 2)])
def test_the_noise_of_all_agents_adds_up_to_nothing(sizes: tuple[int, ...]) -> None:
    for number in range(20):
        assert sum(drawn(number, sizes, 6.5)) == 0


def test_the_steps_have_exact_chances(monkeypatch: pytest.MonkeyPatch) -> None:
    laws: list[list[Decimal]] = []

    def noted(bits: object, law: object, errors: int) -> int:
        assert callable(law)
        chances: Iterator[Decimal] = law()
        laws.append(list(itertools.islice(chances, 400)))
        return 6

    for module in (group_total, agent_noise):
        monkeypatch.setattr(module, "inverted", noted)
    with localcontext(prec=60):
        SharedNoise(SECRET, "all", (3, 2), 2.0).part(0)
        total, over, _ = laws
        a = Decimal("-0.5").exp()
        weights = [math.comb(4 + t, t) ** 2 * a ** (2 * t) for t in range(400)]
        for chance, weight in zip(total, weights, strict=True):
            assert abs(chance - weight / sum(weights)) < Decimal("1e-50")
    shares = [
        Fraction(math.comb(2 + k, k) * math.comb(1 + 6 - k, 6 - k), math.comb(4 + 6, 6))
        for k in range(7)
    ]
    assert sum(shares) == 1
    for chance, share in zip(over, shares, strict=True):
        assert abs(Fraction(chance) - share) < Fraction(1, 10**50)


def test_another_release_or_group_has_other_noise() -> None:
    once = SharedNoise(SECRET, "all", (20, 20), 50.0).part(0)
    assert SharedNoise(SECRET, "all", (20, 20), 50.0).part(0) == once
    assert SharedNoise(SECRET, "other", (20, 20), 50.0).part(0) != once
    assert SharedNoise(derived(SECRET, "next"), "all", (20, 20), 50.0).part(0) != once


def test_what_is_derived_does_not_change_between_versions() -> None:
    """Agents of two versions have to agree; there is no oracle but an earlier version."""
    assert derived(SECRET, "a", 1).hex().startswith("bd5713353913bce5")
    assert drawn(0, (2, 3), 4.0) == (5, -1, -6, -1, 3)


def test_noise_for_too_many_counts_is_refused() -> None:
    with pytest.raises(StatementTooComplex, match="2,000 counts"):
        SharedNoise(SECRET, "all", (1_000, 1_000), 1_000.0)
    for scale in (0.01, math.nan):
        with pytest.raises(StatementTooComplex):
            SharedNoise(SECRET, "all", (1, 1), scale)
