"""Which of two answers to a row is what is known of it."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest

from tallyveil.inference import DiscreteLaplaceLaw, Noises
from tallyveil.knowledge.answers.aim import Aim
from tallyveil.knowledge.answers.estimate import Estimate, NoiseWeights
from tallyveil.knowledge.answers.many import Alike
from tallyveil.knowledge.answers.released_answer import Released
from tallyveil.knowledge.improvement import all_improved, no_wider
from tallyveil.mechanisms import mechanism

LEVEL = Fraction(95, 100)
OWN = Released.of(5, DiscreteLaplaceLaw(10.0))


def estimate(share: float, *, rough: bool) -> Estimate:
    """From two answers of the scale of one's own, of which one is exact, by its number."""
    noises = Noises.of(DiscreteLaplaceLaw, [10.0, 10.0])
    weights = NoiseWeights(np.array([share, 1 - share]), noises, rough)
    return Estimate(5.5, np.array([-1, 0]), weights)


@pytest.mark.parametrize("half_width", [None, Fraction(1000)])
def test_an_answer_that_agrees_with_exact_rows_is_no_wider(half_width: Fraction | None) -> None:
    """Though it would meet the target: the narrower one may have been reported."""
    aim = Aim(mechanism("laplace"), 10.0, half_width, LEVEL)
    bound = estimate(0.99, rough=True)
    assert bound.variance < OWN.variance
    assert bound.half_width(LEVEL) > OWN.half_width(LEVEL) + 1
    assert all_improved([OWN], [bound], aim) == [OWN]
    [better] = all_improved([OWN], [estimate(0.5, rough=False)], aim)
    assert better is not None
    assert better.half_width(LEVEL) < OWN.half_width(LEVEL)


def test_what_was_known_before_stays_where_it_is_narrower() -> None:
    aim = Aim(mechanism("laplace"), 10.0, None, LEVEL)
    wider = Released.of(7, DiscreteLaplaceLaw(11.0))
    assert no_wider([wider, OWN, None], [OWN, wider, OWN], aim) == [OWN, OWN, None]


def test_rows_of_one_law_are_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many they are."""
    aim = Aim(mechanism("laplace"), 10.0, None, LEVEL)
    narrow, wide = (Alike(range(1000), DiscreteLaplaceLaw(scale)) for scale in (10.0, 11.0))
    expected = [no_wider([*now], [*before], aim) for now, before in permutations((narrow, wide))]
    monkeypatch.setattr(Alike, "__iter__", None)
    monkeypatch.setattr(Alike, "_row", None)
    assert no_wider(wide, (None,) * 1000, aim) is wide
    found = [no_wider(now, before, aim) for now, before in permutations((narrow, wide))]
    assert found == [narrow, narrow]
    monkeypatch.undo()
    assert [[*one] for one in found] == expected
