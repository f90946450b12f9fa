"""Estimates from public history: pure numerics, no data, no files, no budget.

What lives here takes noisy answers, noise laws and public facts, and says what follows from them
and how surely. Every bound is rounded to the honest side: an interval is never too narrow, a
scale that must meet a target is never too large.
"""

from tallyveil.inference import discrete_gaussian
from tallyveil.inference.blocks import Combination, best_combinations
from tallyveil.inference.classes import Classes, KroneckerRow, classes_of
from tallyveil.inference.confidence_sequence import confidence_sequence
from tallyveil.inference.discrete_laplace import (
    half_width,
    scale_for_half_width,
    tail,
    variance,
)
from tallyveil.inference.error_law import ErrorLaw
from tallyveil.inference.estimator import Estimate, Estimator
from tallyveil.inference.exchangeable import best_combination
from tallyveil.inference.fit import Fit
from tallyveil.inference.laws import DiscreteGaussianLaw, DiscreteLaplaceLaw, NoiseLaw
from tallyveil.inference.likelihoods import count_posterior
from tallyveil.inference.monte_carlo import expected_error, monte_carlo
from tallyveil.inference.noise import Law, Noises
from tallyveil.inference.noise_sums import between, half_width_of_sum
from tallyveil.inference.posterior import Interval, Posterior
from tallyveil.inference.probability_calculation import mass_within, probability_calculation
from tallyveil.inference.randomised_response import debiased
from tallyveil.inference.spectrum import Bounds
from tallyveil.inference.top_up import TopUp, combined, top_up

__all__ = [
    "Bounds",
    "Classes",
    "Combination",
    "DiscreteGaussianLaw",
    "DiscreteLaplaceLaw",
    "ErrorLaw",
    "Estimate",
    "Estimator",
    "Fit",
    "Interval",
    "KroneckerRow",
    "Law",
    "NoiseLaw",
    "Noises",
    "Posterior",
    "TopUp",
    "best_combination",
    "best_combinations",
    "between",
    "classes_of",
    "combined",
    "confidence_sequence",
    "count_posterior",
    "debiased",
    "discrete_gaussian",
    "expected_error",
    "half_width",
    "half_width_of_sum",
    "mass_within",
    "monte_carlo",
    "probability_calculation",
    "scale_for_half_width",
    "tail",
    "top_up",
    "variance",
]
