"""``auto(properties=wh+cm)``: the mechanism with a public range that COUNT Fig. 5 leads to.

The choice depends on n and α, so it is made once a statement's scales are known. The chosen
mechanism's own name is charged, recorded and reported.
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
"""Ways to use counts that are published exactly.

- projected (SUBSPACE): noise on the rows as asked; the answer is the estimate that agrees with the
  exact counts, and the rows are charged (Cor. 11).
- extended: the same with Gaussian noise, where the projection of the rows is charged (Thm 12, whose
  answer has the same law).
- optimal: Gaussian noise on other rows, which determine the rows asked for at nearly the least
  variance that any covariance has.
- correlated: as optimal, at the variance of SUBSPACE's Algorithms 2 and 3.
- imaged (TWO-VIEWS): another name for projected.
- conditioned: noise drawn given that it agrees with the exact counts (`constrained.conditioned`).
- knorm: the k-norm mechanism, which is conditioned for disjoint groups with Laplace noise.
"""

# What `designing.choose` solves at WM; the other leaves are families of their own (`NAMED`).
_WM: Final = CountMechanism("designed", 1, closure(("WH", "RM", "CM", "S")))


@dataclass(frozen=True)
class Flowchart:
    """The properties asked for with all that follow from them, and n, or None if the policy's n is
    to be used.
    """

    properties: frozenset[Property]
    n: int | None = None

    @property
    def name(self) -> str:
        """The canonical name."""
        properties = "properties=" + "+".join(sorted(p.lower() for p in self.properties))
        return f"{AUTO}({properties if self.n is None else f'n={self.n}, {properties}'})"

    def chosen(self, n: int, scales: Sequence[float]) -> CountMechanism:
        """Choose one mechanism for columns at these scales, where 0 stands for an exact answer.

        If all answers are exact, the choice is that for α ≤ 1/2. The programs for WH and WM have GM
        as their solution wherever GM has the properties; so if the choices for the columns differ,
        the program's mechanism serves all.

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
    """Return what ``auto(…)`` asks for, or None for any other text.

    Raises InvalidParameterValue for parameters other than n and properties, for invalid values,
    and if properties are missing.
    """
    asked = read(text)
    if asked.name != AUTO:
        return None
    given = asked.given(
        ("n", "properties"),
        "It takes n and properties; designed takes an objective, too.",
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
    """Return the text that a setting stores: "auto", ``auto(…)``, a name of `BY_INVARIANTS`, or a
    mechanism's canonical name.

    Raises InvalidParameterValue as `canonical` and `chart_of`.
    """
    if text.strip().lower() in (AUTO, *BY_INVARIANTS):
        return text.strip().lower()
    chart = chart_of(text)
    return canonical(text, besides=(AUTO, *BY_INVARIANTS)) if chart is None else chart.name
