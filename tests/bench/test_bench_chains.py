"""Markov chains: what they are worth is measured, and what has not converged is not returned."""

from __future__ import annotations

import numpy as np
import pytest

from bench.chains import Chains, effective_draws, r_hat, variances
from tallyveil.errors import StatementTooComplex
from tallyveil.inference import DiscreteGaussianLaw, DiscreteLaplaceLaw
from tallyveil.inference.conditional.tree import Tree

LAPLACE, GAUSS, EXACT = DiscreteLaplaceLaw(1.0), DiscreteGaussianLaw(1.5), DiscreteLaplaceLaw(0.0)


def autoregressive(rho: float, chains: int, draws: int, random: np.random.Generator) -> np.ndarray:
    found = random.normal(size=(chains, draws, 1))
    for t in range(1, draws):
        found[:, t] = rho * found[:, t - 1] + np.sqrt(1 - rho**2) * found[:, t]
    return found


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_how_many_independent_draws_a_chain_is_worth(rho: float) -> None:
    """(1 − ρ) / (1 + ρ) of them, where each depends on the one before with correlation ρ."""
    series = autoregressive(rho, 8, 4_000, np.random.default_rng(1))
    assert effective_draws(series)[0] == pytest.approx(32_000 * (1 - rho) / (1 + rho), rel=0.2)
    assert r_hat(series)[0] < 1.01


def test_chains_that_stay_apart_are_seen() -> None:
    series = autoregressive(0.1, 4, 1_000, np.random.default_rng(2))
    series += np.arange(4)[:, None, None]
    assert r_hat(series)[0] > 1.3
    assert effective_draws(series)[0] < 20


@pytest.mark.parametrize(
    "tree",
    [
        Tree((3, 3, 3, -1), (LAPLACE,) * 3 + (EXACT,)),
        Tree((5, 5, 6, 6, 6, 7, 7, -1), (LAPLACE,) * 8),
        Tree((5, 5, 6, 6, 6, 7, 7, -1), (GAUSS,) * 7 + (EXACT,)),
    ],
)
def test_a_chain_comes_near_the_law(tree: Tree) -> None:
    """Of each count the variance, within 6 standard errors of so many independent draws, whose
    fourth moments are at most 6 times the squared variance."""
    found = Chains(tree).run(1_500)
    assert found.converged
    assert 0.2 < found.taken < 0.9
    assert "approximate" in found.label
    assert tree.sums([found.last()[leaf] for leaf in tree.leaves]) == found.last()
    exact = np.array(variances(tree))
    sampled = (found.sums.astype(float) ** 2).mean(axis=(0, 1))
    assert sampled == pytest.approx(exact, rel=6 * np.sqrt(5 / found.effective), abs=1e-12)


def test_steps_are_tuned_to_the_noise() -> None:
    """Steps of 1 are nearly all taken where noise is wide, and lead nowhere: each sweep is worth
    more once as many are refused as are to be."""
    tree = Tree((3, 3, 3, -1), (DiscreteLaplaceLaw(20.0),) * 3 + (EXACT,))
    plain, tuned = (Chains(tree).run(800, first=first) for first in (0, 60))
    assert plain.taken > 0.9
    assert 0.2 < tuned.taken < 0.6
    assert tuned.effective > 10 * plain.effective


def test_what_has_not_converged_is_no_release() -> None:
    tree = Tree((*[40] * 40, -1), (DiscreteLaplaceLaw(20.0),) * 40 + (EXACT,))
    found = Chains(tree, 4).run(6, first=0)
    assert not found.converged
    with pytest.raises(StatementTooComplex, match="not converged"):
        found.last()


def test_what_cannot_be_run() -> None:
    with pytest.raises(ValueError, match="compared"):
        Chains(Tree((1, -1), (LAPLACE, LAPLACE)), 3)
    with pytest.raises(ValueError, match="nothing can move"):
        Chains(Tree((1, -1), (LAPLACE, EXACT)))
