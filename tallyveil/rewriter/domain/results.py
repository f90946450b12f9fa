"""What a CASE comes to in each cell: the result of one of its branches, a constant or a value of
one attribute, which DuckDB computes on the attribute's cells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from sqlglot import exp

from tallyveil import deadline
from tallyveil.arrays import IntArray
from tallyveil.errors import StatementError
from tallyveil.policy.domain import Domain
from tallyveil.rewriter.domain.components import attributes_of
from tallyveil.rewriter.domain.linearise import is_number
from tallyveil.rewriter.domain.regions import Ask, Space, values_in_cells
from tallyveil.rewriter.resolve.branches import RECORD, DomainSource
from tallyveil.rewriter.sql.nodes import duckdb_sql

__all__ = ["CaseResults", "OfCase", "counted", "results_of", "summed", "unread"]


@dataclass(frozen=True, eq=False)
class CaseResults:
    """Branch n, the ELSE being the last, comes to ``values[starts[n]]`` if it is a constant; if it
    is about the attribute ``names[n]``, to ``values[starts[n] + c]`` in its cell c.
    """

    values: pa.Array
    names: Sequence[str | None]
    starts: IntArray

    def places(self, case: exp.Case, space: Space, cells: IntArray) -> IntArray | None:
        """Which of the values it is in each of some cells; None where a condition is left to
        DuckDB."""
        every = space.branches(case)
        if every is None:
            return None
        branches = every[cells]
        found = self.starts[branches]
        for place, axis in enumerate(space.axes):
            deadline.check()
            about = np.array([name == axis.attribute.name for name in self.names])
            if about.any():
                found += about[branches] * space.coordinates(place, cells)
        return found


OfCase: TypeAlias = Callable[[exp.Case], CaseResults | None]


def unread(case: exp.Case) -> CaseResults | None:
    """A stand-in for `results_of`, before DuckDB is asked."""
    results = _results(case)
    if results is None:
        return None
    return CaseResults(pa.array([0]), [None] * len(results), np.zeros(len(results), dtype=np.int64))


def results_of(
    case: exp.Case, domain: Domain, source: DomainSource, ask: Ask
) -> CaseResults | None:
    """None where a result is about several attributes, or fails, which a condition may guard.

    They are of one type, the CASE's, which follows from all of them.
    """
    results = _results(case)
    kind = None if results is None else _type_of(case, domain, ask)
    if results is None or kind is None:
        return None
    asked: dict[str | None, dict[exp.Expr, int]] = {}
    names = [next(iter(attributes_of(one)), None) for one in results]
    for name, one in zip(names, results, strict=True):
        asked.setdefault(name, {}).setdefault(one, len(asked.get(name, {})))
    values, first, start = [], {}, 0
    for name, some in asked.items():
        cast = [exp.cast(one, kind) for one in deadline.stoppable(some, 50)]
        found = values_in_cells(domain, set() if name is None else {name}, cast, source, ask)
        if found is None:
            return None
        cells, lists = found
        in_order = np.argsort(cells)[None, :] * len(some) + np.arange(len(some))[:, None]
        values.append(lists.take(pa.array(in_order.ravel())))
        first[name] = start, len(cells)
        start += len(lists)
    starts = [
        first[name][0] + asked[name][one] * first[name][1]
        for name, one in zip(names, results, strict=True)
    ]
    return CaseResults(pa.concat_arrays(values), names, np.array(starts, dtype=np.int64))


def counted(values: pa.Array, places: IntArray, passes: Any) -> IntArray:
    """1 in the cells that pass and have a value, else 0."""
    known: IntArray = values.is_valid().to_numpy(False).astype(np.int64)
    return np.where(passes, known[places], 0)


def summed(values: pa.Array, places: IntArray, passes: Any) -> pa.Array | None:
    """The values in the cells that pass; 0 in the others, and for NULL. None for no numbers."""
    if not is_number(values.type):
        return None
    every = pa.concat_arrays([values, pa.nulls(1, values.type)])
    own = np.where(passes, places, len(values))
    return every.fill_null(pa.scalar(0, values.type)).take(pa.array(own))


def _results(case: exp.Case) -> list[exp.Expr] | None:
    """Of each branch and the ELSE; None where one is about several attributes, or is a query."""
    results = [branch.args["true"] for branch in case.args["ifs"]]
    results.append(case.args.get("default") or exp.null())
    if case.this is not None or any(
        one.find(exp.Query) or len({c.name for c in one.find_all(exp.Column)}) > 1
        for one in deadline.stoppable(results, 50)
    ):
        return None
    return results


def _type_of(case: exp.Case, domain: Domain, ask: Ask) -> exp.DataType | None:
    """The type that DuckDB gives the CASE: that of the same one of unknown values."""
    typed = case.copy()
    for branch in typed.args["ifs"]:
        branch.set("this", exp.false())
    for column in list(typed.find_all(exp.Column)):
        if column.table != RECORD:
            return None
        kind = domain[column.name].sql_type
        column.replace(exp.cast(exp.null(), kind, dialect="duckdb"))
    try:
        found = ask(f"SELECT typeof({duckdb_sql(typed)}) AS kind").column("kind")[0].as_py()
    except StatementError:
        deadline.check()
        return None
    return None if found == '"NULL"' else exp.DataType.build(found, dialect="duckdb")
