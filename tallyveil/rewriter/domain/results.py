"""The value of a CASE in each cell. It is the result of a branch: a constant, or an expression of
one attribute, which DuckDB computes on that attribute's cells.
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

__all__ = ["CaseResults", "OfCase", "counted", "placeholder", "results_of", "summed"]


@dataclass(frozen=True, eq=False)
class CaseResults:
    """Branch n, the ELSE being the last, has the value ``values[starts[n]]`` if a constant, and
    ``values[starts[n] + c]`` in cell c of the attribute ``names[n]`` if it depends on that.
    """

    values: pa.Array
    names: Sequence[str | None]
    starts: IntArray

    def places(self, case: exp.Case, space: Space, cells: IntArray) -> IntArray | None:
        """The index in ``values`` for each of the cells; None if a condition takes DuckDB."""
        in_space = space.branches(case)
        if in_space is None:
            return None
        branches = in_space[cells]
        found = self.starts[branches]
        for place, axis in enumerate(space.axes):
            deadline.check()
            about = np.array([name == axis.attribute.name for name in self.names])
            if about.any():
                found += about[branches] * space.coordinates(place, cells)
        return found


OfCase: TypeAlias = Callable[[exp.Case], CaseResults | None]


def placeholder(case: exp.Case) -> CaseResults | None:
    """A stand-in for `results_of`, before DuckDB is queried."""
    results = _results(case)
    if results is None:
        return None
    return CaseResults(pa.array([0]), [None] * len(results), np.zeros(len(results), dtype=np.int64))


def results_of(
    case: exp.Case, domain: Domain, source: DomainSource, ask: Ask
) -> CaseResults | None:
    """Compute the results in DuckDB, all cast to the type of the CASE.

    None if a result depends on several attributes, or fails: a condition may guard it.
    """
    results = _results(case)
    kind = None if results is None else _type_of(case, domain, ask)
    if results is None or kind is None:
        return None
    asked: dict[str | None, dict[exp.Expr, int]] = {}
    names = [next(iter(attributes_of(result)), None) for result in results]
    for name, result in zip(names, results, strict=True):
        asked.setdefault(name, {}).setdefault(result, len(asked.get(name, {})))
    values, first, start = [], {}, 0
    for name, distinct in asked.items():
        cast = [exp.cast(result, kind) for result in deadline.stoppable(distinct, 50)]
        found = values_in_cells(domain, set() if name is None else {name}, cast, source, ask)
        if found is None:
            return None
        cells, lists = found
        count = len(distinct)
        in_order = np.argsort(cells)[None, :] * count + np.arange(count)[:, None]
        values.append(lists.take(pa.array(in_order.ravel())))
        first[name] = start, len(cells)
        start += len(lists)
    starts = [
        first[name][0] + asked[name][result] * first[name][1]
        for name, result in zip(names, results, strict=True)
    ]
    return CaseResults(pa.concat_arrays(values), names, np.array(starts, dtype=np.int64))


def counted(values: pa.Array, places: IntArray, passes: Any) -> IntArray:
    """1 in the cells that pass and are not NULL, else 0."""
    known: IntArray = values.is_valid().to_numpy(False).astype(np.int64)
    return np.where(passes, known[places], 0)


def summed(values: pa.Array, places: IntArray, passes: Any) -> pa.Array | None:
    """The values in the cells that pass, 0 for NULL and in others; None if not numbers."""
    if not is_number(values.type):
        return None
    with_null = pa.concat_arrays([values, pa.nulls(1, values.type)])
    own = np.where(passes, places, len(values))
    return with_null.fill_null(pa.scalar(0, values.type)).take(pa.array(own))


def _results(case: exp.Case) -> list[exp.Expr] | None:
    """The results of the branches and the ELSE; None if one has several attributes or a query."""
    results = [branch.args["true"] for branch in case.args["ifs"]]
    results.append(case.args.get("default") or exp.null())
    if case.this is not None or any(
        one.find(exp.Query) or len({c.name for c in one.find_all(exp.Column)}) > 1
        for one in deadline.stoppable(results, 50)
    ):
        return None
    return results


def _type_of(case: exp.Case, domain: Domain, ask: Ask) -> exp.DataType | None:
    """DuckDB's type of the CASE, found by replacing each attribute by a NULL of its type."""
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
