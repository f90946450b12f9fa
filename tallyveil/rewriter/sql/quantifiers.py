"""SOME and ALL in terms of ANY: x < SOME (…) is x < ANY (…), x < ALL (…) is NOT x >= ANY (…).

Both sides of the second are NULL for the same values, by De Morgan's law for AND and OR.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from sqlglot import exp

__all__ = ["spell_out_quantifiers"]

_OPPOSITES: Final[Mapping[type, type[exp.Binary]]] = MappingProxyType(
    {
        exp.EQ: exp.NEQ, exp.NEQ: exp.EQ, exp.LT: exp.GTE, exp.GTE: exp.LT, exp.GT: exp.LTE,
        exp.LTE: exp.GT,
    }
)  # fmt: skip


def spell_out_quantifiers(tree: exp.Expr) -> None:
    """Replace, in place, SOME and ALL on the right of a comparison."""
    for some in tree.find_all(exp.Any):
        if isinstance(some.this, exp.Select):
            some.set("this", exp.Subquery(this=some.this))
    for node in list(tree.find_all(exp.Anonymous, exp.All)):
        comparison = node.parent
        opposite = _OPPOSITES.get(type(comparison))
        word = "all" if isinstance(node, exp.All) else str(node.this).lower()
        inner = node.this if isinstance(node, exp.All) else _only(node)
        if opposite is None or comparison is None or inner is None or word not in ("all", "some"):
            continue
        if comparison.expression is not node:
            continue
        bare = inner.unnest() if isinstance(inner, exp.Paren) else inner
        held = exp.Subquery(this=bare) if isinstance(bare, exp.Select) else exp.Paren(this=bare)
        node.replace(exp.Any(this=held))
        if word == "all":
            turned = opposite(this=comparison.this, expression=comparison.expression)
            comparison.replace(exp.Not(this=exp.Paren(this=turned)))


def _only(node: exp.Expr) -> exp.Expr | None:
    return node.expressions[0] if len(node.expressions) == 1 else None
