"""Noise: how much a statement needs, what it costs, and drawing it.

`noise` is added to answers, `matrix` is for counts with a public range, `records` perturb one
record, and `losses` compute exactly what a release costs each cell and each pair of cells.
`registry` has the families' names. This is the only room that opens a `TrueAnswer`, and it does so
against a `Receipt`. It knows no ledger, no SQL and no policy.

Scales are in units of a column's integer lattice: a column's multiplier scales answer and noise
alike and cancels from the cost.
"""

from tallyveil.mechanisms.adjacency import Adjacency, Neighbours
from tallyveil.mechanisms.constrained.joint_release import AgentNoise
from tallyveil.mechanisms.counts import CountMechanism
from tallyveil.mechanisms.flowchart import (
    AUTO,
    BY_DESIGN,
    BY_INVARIANTS,
    CONDITIONED,
    EXTENDED,
    TOGETHER,
    canonical_choice,
    chart_of,
)
from tallyveil.mechanisms.losses.privacy_loss import Loss, sensitivity
from tallyveil.mechanisms.measure import Measure
from tallyveil.mechanisms.noise.additive import Additive
from tallyveil.mechanisms.noise.gaussian import DiscreteGaussian
from tallyveil.mechanisms.noise.laplace import DiscreteLaplace
from tallyveil.mechanisms.noise.statement_scales import StatementCalibration, statement_scales
from tallyveil.mechanisms.protocol import Mechanism
from tallyveil.mechanisms.records.sanitiser import Sanitiser
from tallyveil.mechanisms.registry import (
    AnyMechanism,
    additive,
    answered,
    canonical,
    family_of,
    lacks_range,
    law_of,
    mechanism,
    mechanism_names,
    recorded_law,
    with_range,
)
from tallyveil.mechanisms.statistics import STATISTICS, Statistic, rank_error

__all__ = [
    "AUTO",
    "BY_DESIGN",
    "BY_INVARIANTS",
    "CONDITIONED",
    "EXTENDED",
    "STATISTICS",
    "TOGETHER",
    "Additive",
    "Adjacency",
    "AgentNoise",
    "AnyMechanism",
    "CountMechanism",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Loss",
    "Measure",
    "Mechanism",
    "Neighbours",
    "Sanitiser",
    "StatementCalibration",
    "Statistic",
    "additive",
    "answered",
    "canonical",
    "canonical_choice",
    "chart_of",
    "family_of",
    "lacks_range",
    "law_of",
    "mechanism",
    "mechanism_names",
    "rank_error",
    "recorded_law",
    "sensitivity",
    "statement_scales",
    "with_range",
]
