"""Which of two answers to a row is what is known of it."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest

from tallyveil.inference import DiscreteLaplaceLaw, Noises
from tallyveil.knowledge.answers.aim import Aim
from tallyveil.knowledge.answers.answers import Answers
from tallyveil.knowledge.answers.estimate import Estimate, NoiseWeights
from tallyveil.knowledge.answers.known import Known
from tallyveil.knowledge.selection import improved, no_wider
from tallyveil.mechanisms import mechanism

LEVEL = Fraction(95, 100)
OWN = Known.with_noise(5, DiscreteLaplaceLaw(10.0))


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
    assert bound.variance < OWN.error.variance
    assert bound.half_width(LEVEL) > OWN.error.half_width(LEVEL) + 1
    own = Answers.listed([OWN])
    assert [*improved(own, Answers.estimated([bound]), aim)] == [OWN]
    [better] = improved(own, Answers.estimated([estimate(0.5, rough=False)]), aim)
    assert better is not None
    assert better.error.half_width(LEVEL) < OWN.error.half_width(LEVEL)


def test_what_was_known_before_stays_where_it_is_narrower() -> None:
    aim = Aim(mechanism("laplace"), 10.0, None, LEVEL)
    wider = Known.with_noise(7, DiscreteLaplaceLaw(11.0))
    now, before = Answers.listed([wider, OWN, None]), Answers.listed([OWN, wider, OWN])
    assert [*no_wider(now, before, aim)] == [OWN, OWN, None]


def test_rows_of_one_law_are_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many they are."""
    aim = Aim(mechanism("laplace"), 10.0, None, LEVEL)
    narrow, wide = (
        Answers.with_noise(range(1000), DiscreteLaplaceLaw(scale)) for scale in (10.0, 11.0)
    )
    rows = Answers.listed([*narrow][:500] + [None] * 500)
    monkeypatch.setattr(Answers, "__iter__", None)
    monkeypatch.setattr(Answers, "_row", None)
    assert no_wider(wide, Answers.unknown(1000), aim) is wide
    for now, before in permutations((narrow, wide)):
        assert no_wider(now, before, aim) is narrow
    mixed = no_wider(wide, rows, aim)
    monkeypatch.undo()
    assert [*mixed] == [*narrow][:500] + [*wide][500:]
