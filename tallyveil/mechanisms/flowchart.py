"""``auto(properties=wh+cm)``: the mechanism with a public range that COUNT Fig. 5 leads to.

Which one that is depends on n and on α, so it is known only where a statement's scales are. What
is charged, recorded and told is the mechanism's own name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tallyveil import deadline
from tallyveil.errors import InvalidParameterValue
from tallyveil.mechanisms.counts import CountMechanism
from tallyveil.mechanisms.matrix.designing import Leaf, flowchart
from tallyveil.mechanisms.matrix.named import NAMED
from tallyveil.mechanisms.matrix.privacy_level import alpha_for, checked_range
from tallyveil.mechanisms.matrix.properties import Property, closure
from tallyveil.mechanisms.noise import calibrate
from tallyveil.mechanisms.registry import canonical
from tallyveil.mechanisms.spec import Spec, count_mechanism, read

__all__ = [
    "AUTO",
    "BY_DESIGN",
    "BY_INVARIANTS",
    "CONDITIONED",
    "CORRELATED",
    "EXTENDED",
    "IMAGED",
    "KNORM",
    "PROJECTED",
    "TOGETHER",
    "Flowchart",
    "canonical_choice",
    "chart_of",
]

AUTO: Final = "auto"

PROJECTED: Final = "projected"
EXTENDED: Final = "extended"
OPTIMAL: Final = "optimal"
CORRELATED: Final = "correlated"
BY_DESIGN: Final = (OPTIMAL, CORRELATED)
CONDITIONED: Final = "conditioned"
KNORM: Final = "knorm"
TOGETHER: Final = (CONDITIONED, KNORM)
IMAGED: Final = "imaged"
BY_INVARIANTS: Final = (PROJECTED, EXTENDED, *BY_DESIGN, *TOGETHER, IMAGED)
"""Ways to use exact counts: noise on the rows as asked, told as the estimate that agrees with these
counts. Projected (SUBSPACE), what is charged is the rows (Cor. 11); extended, it is Gaussian noise,
and their projection is (Thm 12, whose answer has the same law). Optimal, Gaussian noise is on other
rows, which tell those asked at nearly the least variance that any covariance has; correlated, at
that of SUBSPACE's Algorithms 2 and 3. Imaged (TWO-VIEWS) is projected, by another name;
conditioned, the noise is drawn given that it agrees (`constrained.conditioned`), and for disjoint
groups and Laplace noise that is the k-norm mechanism."""

# What `designing.choose` solves at WM; at the other leaves it is what has their name.
_WM: Final = CountMechanism("designed", 1, closure(("WH", "RM", "CM", "S")))


@dataclass(frozen=True)
class Flowchart:
    """The properties asked for, closed under what follows from them, and n unless a policy is to
    say it.
    """

    properties: frozenset[Property]
    n: int | None = None

    @property
    def name(self) -> str:
        """The canonical text."""
        properties = "properties=" + "+".join(sorted(p.lower() for p in self.properties))
        return f"{AUTO}({properties if self.n is None else f'n={self.n}, {properties}'})"

    def chosen(self, n: int, scales: Sequence[float]) -> CountMechanism:
        """One mechanism for columns at these scales, of which 0 stands for an exact answer; if all
        are exact, what is chosen at α ≤ 1/2.

        The mechanisms of programs are GM wherever that has their properties, so where columns
        differ the program's is the one for all.

        Raises InvalidParameterValue for an n or a scale out of range.
        """
        leaves: set[Leaf] = set()
        for rate in {calibrate.rate(scale, "epsilon") for scale in scales if scale}:
            deadline.check()
            leaves.add(flowchart(n, alpha_for(rate), self.properties))
        plain: Leaf = "EM" if Property.FAIR in self.properties else "GM"
        leaf = next(iter(leaves - {"GM"}), plain)
        family = NAMED[leaf].family
        return replace(_WM, n=n) if leaf == "WM" or family is None else CountMechanism(family, n)


def chart_of(text: str) -> Flowchart | None:
    """What ``auto(…)`` asks for; None for any other text.

    Raises InvalidParameterValue for parameters other than n and properties, values that are
    none of theirs, and for no properties.
    """
    asked = read(text)
    if asked.name != AUTO:
        return None
    given = asked.given(
        ("n", "properties"),
        "It takes n and properties; an objective can be chosen for designed.",
    )
    if "properties" not in given:
        raise InvalidParameterValue(
            f"{AUTO} with a public range needs properties",
            hint=f"Write {AUTO}(properties=wh+cm), say, or {AUTO} alone.",
        )
    parameters = {"n": "1", **given}
    model = count_mechanism(Spec("designed", tuple(parameters.items())))
    return Flowchart(model.properties, checked_range(model.n) if "n" in given else None)


def canonical_choice(text: str) -> str:
    """What a setting keeps: "auto", ``auto(…)``, a name of `BY_INVARIANTS`, or a mechanism's
    canonical text.

    Raises InvalidParameterValue as `canonical` and `chart_of`.
    """
    if text.strip().lower() in (AUTO, *BY_INVARIANTS):
        return text.strip().lower()
    chart = chart_of(text)
    return canonical(text, besides=(AUTO, *BY_INVARIANTS)) if chart is None else chart.name
