"""Counts that are published exactly: which rows follow from them, and what they disclose.

This room does exact integer arithmetic over public coefficients; the only counts it handles are
published. A row w follows from the declared rows C only by a certificate: a λ with λC = w, verified
in integers. A row for which that cannot be decided within the limits does not follow.
"""

from tallyveil.invariants.centres import centres
from tallyveil.invariants.disclosure import DisclosedCount, Disclosure, disclosure
from tallyveil.invariants.hierarchy import Hierarchy, hierarchy, tied
from tallyveil.invariants.modular import Dependency, dependencies
from tallyveil.invariants.optimal import Design, design
from tallyveil.invariants.row_names import row_names
from tallyveil.invariants.span import Span
from tallyveil.invariants.translate import Translate, translated

__all__ = [
    "Dependency",
    "Design",
    "DisclosedCount",
    "Disclosure",
    "Hierarchy",
    "Span",
    "Translate",
    "centres",
    "dependencies",
    "design",
    "disclosure",
    "hierarchy",
    "row_names",
    "tied",
    "translated",
]
