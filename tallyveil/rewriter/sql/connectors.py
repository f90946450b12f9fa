"""AND and OR of many operands, as trees that are no deeper than need be.

The parser hangs each operand below the next one. What climbs from a column to its SELECT, or goes
down by recursion, would take a step for every operand.
"""

from __future__ import annotations

from sqlglot import exp

__all__ = ["balance"]


def balance(tree: exp.Expr) -> None:
    """Neither the operands nor their order change."""
    for node in list(tree.find_all(exp.And, exp.Or)):
        if type(node.parent) is not type(node):
            operands = list(node.flatten(unnest=False))
            middle = len(operands) // 2
            node.set("this", _joined(type(node), operands[:middle]))
            node.set("expression", _joined(type(node), operands[middle:]))


def _joined(kind: type[exp.Connector], operands: list[exp.Expr]) -> exp.Expr:
    if len(operands) == 1:
        return operands[0]
    middle = len(operands) // 2
    left, right = _joined(kind, operands[:middle]), _joined(kind, operands[middle:])
    return kind(this=left, expression=right)
