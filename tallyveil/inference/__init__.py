"""Estimates from public history: pure numerics, no data, no files, no budget.

What lives here takes noisy answers, noise laws and public facts, and says what follows from them
and how surely. Every bound is rounded to the honest side: an interval is never too narrow, a
scale that must meet a target is never too large.
"""

from tallyveil.inference.combinations import best_combinations, solved
from tallyveil.inference.confidence_sequence import confidence_sequence
from tallyveil.inference.determined import Combination, Determined
from tallyveil.inference.discrete_gaussian import DiscreteGaussianLaw
from tallyveil.inference.discrete_laplace import DiscreteLaplaceLaw
from tallyveil.inference.error_law import ErrorLaw
from tallyveil.inference.exchangeable import Exchangeable
from tallyveil.inference.fit import Fit
from tallyveil.inference.laws import LAWS, NoiseLaw
from tallyveil.inference.noise import Noises
from tallyveil.inference.randomised_response import debiased
from tallyveil.inference.spectrum import Bounds
from tallyveil.inference.top_up import combined, top_up

__all__ = [
    "LAWS",
    "Bounds",
    "Combination",
    "Determined",
    "DiscreteGaussianLaw",
    "DiscreteLaplaceLaw",
    "ErrorLaw",
    "Exchangeable",
    "Fit",
    "NoiseLaw",
    "Noises",
    "best_combinations",
    "combined",
    "confidence_sequence",
    "debiased",
    "solved",
    "top_up",
]
