"""How far conditioned noise spreads, count by count, from an atom's tables."""

from __future__ import annotations

import numpy as np

from tallyveil.inference.noise import FloatArray
from tallyveil.inference.tree import Node
from tallyveil.mechanisms.constrained.tables import Table, Tables

__all__ = ["variances"]


def variances(root: Node, tables: Tables) -> dict[int, float]:
    """Of each count in the atom, by its number."""
    table = tables.of[root.number]
    law = np.zeros_like(table.weights) if root.exact else table.weights / table.weights.sum()
    if root.exact:
        law[table.bound] = 1
    found: dict[int, float] = {}
    todo = [(root, law)]
    while todo:
        node, own = todo.pop()
        found[node.number] = float(own @ np.arange(-(len(own) // 2), len(own) // 2 + 1) ** 2)
        table, laws = tables.of[node.number], dict[int, FloatArray]()
        for child in tables.order[node.number]:
            inside = tables.of[child.number]
            if id(inside) not in laws:
                laws[id(inside)] = _child_law(table, inside, own)
            todo.append((child, laws[id(inside)]))
    return found


def _child_law(table: Table, child: Table, law: FloatArray) -> FloatArray:
    """The law of one child's sum, from that of all: π(k) Σ_s P(s) R(s − k) / A(s), where R are the
    weights of the others' sums and A those of all."""
    others = list(table.children)
    others.remove(child)
    rest = np.ones(1)
    for one in others:
        rest = np.convolve(rest, one.weights)
        excess = len(rest) // 2 - table.bound - child.bound
        rest = rest[excess:-excess] if excess > 0 else rest
    ratio = law / table.prefixes[-1]
    full = np.convolve(ratio, rest[::-1])
    middle = len(full) // 2
    reach = min(middle, child.bound)
    found = np.zeros_like(child.weights)
    found[child.bound - reach : child.bound + reach + 1] = full[middle - reach : middle + reach + 1]
    found *= child.weights
    result: FloatArray = found / found.sum()
    return result
