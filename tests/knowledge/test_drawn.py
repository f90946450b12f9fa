"""What a state knows of noises, drawn together or not."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from tallyveil.inference import DiscreteLaplaceLaw, Noises
from tallyveil.knowledge.answers.estimate import NoiseWeights
from tallyveil.knowledge.state import State


def test_no_columns_have_no_noises() -> None:
    """As where nothing recorded bears on a question, and nothing is exact."""
    assert len(State(1).all_noises(())) == 0


def test_a_quick_bound_is_no_narrower() -> None:
    noises = Noises.of(DiscreteLaplaceLaw, [2.0, 3.0])
    quick, exact = (NoiseWeights(np.array([1.0, 0.5]), noises, rough) for rough in (True, False))
    for confidence in (Fraction(4, 5), Fraction(19, 20)):
        assert quick.half_width(confidence) >= exact.half_width(confidence) > 0
