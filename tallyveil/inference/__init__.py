"""Estimates from public history: pure numerics, no data, no files, no budget.

This room takes noisy answers, noise laws and public facts, and computes estimates and intervals
from them. Every bound is rounded to the safe side: an interval is never too narrow, and a scale
that must meet a target is never too large.
"""

from tallyveil.inference.confidence_sequence import confidence_sequence
from tallyveil.inference.debiasing import debiased
from tallyveil.inference.estimates.combinations import (
    Solved,
    best_combinations,
    by_formula,
    solved,
)
from tallyveil.inference.estimates.determined import Combination, Determined
from tallyveil.inference.estimates.exchangeable import Exchangeable
from tallyveil.inference.estimates.fit import Fit
from tallyveil.inference.fieller import Fieller, outward
from tallyveil.inference.laws.discrete_gaussian import DiscreteGaussianLaw
from tallyveil.inference.laws.discrete_laplace import DiscreteLaplaceLaw
from tallyveil.inference.laws.error_law import ErrorLaw
from tallyveil.inference.laws.noise_law import LAWS, NoiseLaw
from tallyveil.inference.laws.noises import Noises
from tallyveil.inference.laws.spectrum import ProbabilityBounds
from tallyveil.inference.top_up import combined, top_up

__all__ = [
    "LAWS",
    "Combination",
    "Determined",
    "DiscreteGaussianLaw",
    "DiscreteLaplaceLaw",
    "ErrorLaw",
    "Exchangeable",
    "Fieller",
    "Fit",
    "NoiseLaw",
    "Noises",
    "ProbabilityBounds",
    "Solved",
    "best_combinations",
    "by_formula",
    "combined",
    "confidence_sequence",
    "debiased",
    "outward",
    "solved",
    "top_up",
]
