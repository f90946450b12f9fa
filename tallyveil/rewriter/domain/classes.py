"""Cells that no expression of a component tells apart, so that one of them speaks for all.

What a component says of a cell follows from the values of its atoms: the largest expressions that
mention one attribute each. DuckDB evaluates these on one attribute after the other, and everything
else on a cell of each class; these are far fewer where some conditions cut large domains.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from sqlglot import exp

from tallyveil import deadline
from tallyveil.errors import StatementError
from tallyveil.rewriter.domain.components import Component
from tallyveil.rewriter.domain.domain_relation import coefficient_query
from tallyveil.rewriter.domain.integers import IntArray
from tallyveil.rewriter.domain.linearise import groups
from tallyveil.rewriter.resolve.branches import Source

__all__ = ["FEW", "Classes", "classes"]

# Up to so many cells are sooner evaluated one by one.
FEW: Final = 20_000
# So many cells a class has, on the average, where it is worth while.
_GAIN: Final = 2

_PLAIN: Final[Sequence[Callable[[pa.DataType], bool]]] = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_float64,
    pa.types.is_decimal,
    pa.types.is_string,
    pa.types.is_date,
)


@dataclass(frozen=True, eq=False)
class Classes:
    """``firsts`` has the first cell of each cell's class, by the attributes in the domain's order,
    and ``chosen`` the first cells alone, of the attributes with fewer classes than cells.
    """

    firsts: Mapping[str, IntArray]
    chosen: Mapping[str, IntArray]

    def spread(self, cells: IntArray) -> tuple[IntArray, IntArray]:
        """From first cells to all the cells of their classes: these, sorted, and where among
        ``cells`` the first cell of each stands.
        """
        first, size = np.zeros(1, dtype=np.int64), 1
        for own in self.firsts.values():
            deadline.check()
            first, size = np.add.outer(first * len(own), own).ravel(), size * len(own)
        place = np.full(size, -1, dtype=np.int64)
        place[cells] = np.arange(len(cells))
        deadline.check()
        places = place[first]
        deadline.check()
        passing = np.flatnonzero(places >= 0)
        return passing, places[passing]


def classes(component: Component, source: Source, ask: Callable[[str], pa.Table]) -> Classes | None:
    """None where every cell is to be evaluated: they are few, or most are told apart."""
    axes, cells = component.axes, component.cells
    roots = [*component.expressions, *component.keys.values()]
    if not source.plain or len(axes) < 2 or cells <= FEW or any(r.find(exp.Query) for r in roots):
        return None
    firsts = {axis.name: np.arange(axis.size) for axis in axes}
    chosen: dict[str, IntArray] = {}
    for name, atoms in _atoms(roots).items():
        # An attribute as it stands tells all of its cells apart.
        bare = any(isinstance(atom.unnest(), exp.Column) for atom in atoms)
        if bare or len(atoms) * len(firsts[name]) > cells:
            continue
        alone = Component(component.domain, frozenset({name}), keys=dict(enumerate(atoms)))
        try:
            values = ask(coefficient_query(alone, source))
        except StatementError:  # an atom that fails may be guarded by another
            deadline.check()
            return None
        own = values.column("__cell").to_numpy().astype(np.int64)
        columns = values.drop_columns("__cell").columns
        if not all(any(is_kind(column.type) for is_kind in _PLAIN) for column in columns):
            return None
        group, first = groups([_bits(column) for column in columns], own)
        firsts[name][own] = own[first][group]
        if len(first) < len(own):
            chosen[name] = own[first]
    kept = math.prod(len(chosen.get(name, own)) for name, own in firsts.items())
    return Classes(firsts, chosen) if kept * _GAIN <= cells else None


def _atoms(roots: Sequence[exp.Expr]) -> Mapping[str, Sequence[exp.Expr]]:
    """The largest values that depend on one attribute each, by the attributes."""
    found: dict[str, dict[exp.Expr, None]] = {}
    for root in roots:
        names: dict[int, frozenset[str]] = {}
        for node in reversed(list(root.walk())):
            own = [node.name] if isinstance(node, exp.Column) else []
            parts = (names[id(part)] for part in node.iter_expressions())
            names[id(node)] = frozenset(own).union(*parts)
        stack = [root]
        while stack:
            deadline.check()
            node = stack.pop()
            mentioned = names[id(node)]
            value = isinstance(node, exp.Condition) and not isinstance(node, exp.AggFunc | exp.If)
            if len(mentioned) == 1 and value:
                (name,) = mentioned
                found.setdefault(name, {})[node] = None
            elif mentioned:
                stack += node.iter_expressions()
    return {name: list(atoms) for name, atoms in found.items()}


def _bits(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Doubles by their bits: not all that equals has the same function values, as -0.0 and 0.0."""
    if column.type != pa.float64():
        return column
    return pa.chunked_array([chunk.view(pa.int64()) for chunk in column.chunks], pa.int64())
