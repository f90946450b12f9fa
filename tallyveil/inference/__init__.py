"""Estimates from public history: pure numerics, no data, no files, no budget.

What lives here takes noisy answers, noise laws and public facts, and says what follows from them
and how surely. Every bound is rounded to the honest side: an interval is never too narrow, a
scale that must meet a target is never too large.
"""

from tallyveil.inference import discrete_gaussian
from tallyveil.inference.classes import Classes, KroneckerRow, classes_of
from tallyveil.inference.discrete_laplace import (
    half_width,
    scale_for_half_width,
    tail,
    variance,
)
from tallyveil.inference.error_law import ErrorLaw
from tallyveil.inference.estimator import Estimate, Estimator
from tallyveil.inference.laws import DiscreteGaussianLaw, DiscreteLaplaceLaw, NoiseLaw
from tallyveil.inference.noise import Law, Noises
from tallyveil.inference.noise_sums import half_width_of_sum
from tallyveil.inference.posterior import Interval, Posterior
from tallyveil.inference.randomised_response import debiased
from tallyveil.inference.spectrum import Bounds

__all__ = [
    "Bounds",
    "Classes",
    "DiscreteGaussianLaw",
    "DiscreteLaplaceLaw",
    "ErrorLaw",
    "Estimate",
    "Estimator",
    "Interval",
    "KroneckerRow",
    "Law",
    "NoiseLaw",
    "Noises",
    "Posterior",
    "classes_of",
    "debiased",
    "discrete_gaussian",
    "half_width",
    "half_width_of_sum",
    "scale_for_half_width",
    "tail",
    "variance",
]
