"""Mechanisms for one count with a public range 0..n (COUNT), as exact matrices.

A `CountMatrix` is a law in integers: what is drawn is what was proved. `choose` finds the one that
fits the properties wanted, `design` minimises any of the paper's objectives; `geometric`,
`explicit_fair`, `uniform`, `randomised_response` and `exponential` are known by name;
`NAMED` lists those that COUNT names. `draw` releases, and `posterior` says what an output is worth.

Here live numbers and exact sampling. Whoever calls `draw` has opened an answer and paid for it.
"""

from tallyveil.mechanisms.matrix.cache import DesignCache
from tallyveil.mechanisms.matrix.count_matrix import CountMatrix
from tallyveil.mechanisms.matrix.credible import posterior
from tallyveil.mechanisms.matrix.derivable import derivable_from_geometric
from tallyveil.mechanisms.matrix.designing import (
    MAX_DESIGNED_RANGE,
    Leaf,
    choose,
    design,
    flowchart,
)
from tallyveil.mechanisms.matrix.explicit import (
    explicit_fair,
    geometric,
    randomised_response,
    uniform,
)
from tallyveil.mechanisms.matrix.exponential import exponential
from tallyveil.mechanisms.matrix.named import NAMED, Named, named
from tallyveil.mechanisms.matrix.objective import Objective, score
from tallyveil.mechanisms.matrix.privacy_level import (
    MAX_RANGE,
    alpha_for,
    checked_range,
    epsilon_for,
)
from tallyveil.mechanisms.matrix.proof import prove_pure
from tallyveil.mechanisms.matrix.properties import (
    Property,
    closure,
    holds,
    parse_properties,
    properties_of,
)
from tallyveil.mechanisms.matrix.sampling import draw

__all__ = [
    "MAX_DESIGNED_RANGE",
    "MAX_RANGE",
    "NAMED",
    "CountMatrix",
    "DesignCache",
    "Leaf",
    "Named",
    "Objective",
    "Property",
    "alpha_for",
    "checked_range",
    "choose",
    "closure",
    "derivable_from_geometric",
    "design",
    "draw",
    "epsilon_for",
    "explicit_fair",
    "exponential",
    "flowchart",
    "geometric",
    "holds",
    "named",
    "parse_properties",
    "posterior",
    "properties_of",
    "prove_pure",
    "randomised_response",
    "score",
    "uniform",
]
