"""Counts that are published exactly: which rows follow from them, and what they give away.

What lives here is exact integer arithmetic over public coefficients; it meets no count but those
that are published. A row follows from the declared rows C only by a certificate: a λ with
λC = w, verified in integers. What cannot be decided within the limits does not follow.
"""

from tallyveil.invariants.centres import centres
from tallyveil.invariants.disclosure import DisclosedCount, Disclosure, disclosure
from tallyveil.invariants.hierarchy import Hierarchy, hierarchy
from tallyveil.invariants.names import row_names
from tallyveil.invariants.optimal import Design, design
from tallyveil.invariants.span import Span
from tallyveil.invariants.translate import Translate, translated

__all__ = [
    "Design",
    "DisclosedCount",
    "Disclosure",
    "Hierarchy",
    "Span",
    "Translate",
    "centres",
    "design",
    "disclosure",
    "hierarchy",
    "row_names",
    "translated",
]
