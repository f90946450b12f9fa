"""Noise: how much a statement needs, what it costs, and drawing it.

One file per family of noise, registered by name; what families share (exact loss per cell and per
pair of cells, calibration) has files of its own. This is the only room that opens a `TrueAnswer`,
and it does so against a `Receipt`. It knows no ledger, no SQL and no policy.

Scales are in units of a column's integer lattice: a column's multiplier scales answer and noise
alike and cancels from the cost.
"""

from tallyveil.mechanisms.calibrate import MAX_SCALE
from tallyveil.mechanisms.cells import CellLoss
from tallyveil.mechanisms.laplace import DiscreteLaplace
from tallyveil.mechanisms.loss import Loss, privacy_loss, sensitivity
from tallyveil.mechanisms.pairs import PairLoss
from tallyveil.mechanisms.protocol import Mechanism
from tallyveil.mechanisms.registry import mechanism, mechanism_names, register
from tallyveil.mechanisms.relation import Neighbours, Relation

__all__ = [
    "MAX_SCALE",
    "CellLoss",
    "DiscreteLaplace",
    "Loss",
    "Mechanism",
    "Neighbours",
    "PairLoss",
    "Relation",
    "mechanism",
    "mechanism_names",
    "privacy_loss",
    "register",
    "sensitivity",
]
