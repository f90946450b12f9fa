"""Conditions on one attribute each that take DuckDB to know, and what it says of them.

They are evaluated on their attribute's cells, all of one attribute in one query. What is made of
them by AND, OR and NOT takes no query, however many cells that ties together (`regions`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from sqlglot import exp

from tallyveil import deadline
from tallyveil.errors import StatementError
from tallyveil.policy.domain import Domain
from tallyveil.rewriter.domain.domain_relation import coefficient_query
from tallyveil.rewriter.domain.masks import Truth
from tallyveil.rewriter.resolve.branches import RECORD, Source

__all__ = ["Ask", "Conditions", "values_of"]

Ask: TypeAlias = Callable[[str], pa.Table]


class Conditions:
    """Collects the conditions that a component is made of."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._found: dict[str, dict[exp.Expr, None]] = {}

    def __call__(self, condition: exp.Expr) -> Truth | None:
        """Of a condition on one attribute: that it is to be asked for, and false meanwhile."""
        columns = list(condition.find_all(exp.Column))
        names = {column.name for column in columns}
        if len(names) > 1 or any(column.table != RECORD for column in columns):
            return None
        if condition.find(exp.Query):
            return None
        (name,) = names
        self._found.setdefault(name, {})[condition] = None
        cells = np.zeros(self._domain.project(names)[0].size, dtype=np.bool_)
        return Truth(cells, ~cells)

    def asked(self, source: Source, ask: Ask) -> Mapping[exp.Expr, Truth] | None:
        """What DuckDB says of them; None where one fails, which others may guard, or is none."""
        truths: dict[exp.Expr, Truth] = {}
        for name, conditions in self._found.items():
            every = exp.Array(
                expressions=[one.copy() for one in deadline.stoppable(conditions, 50)]
            )
            query = coefficient_query(self._domain, frozenset({name}), None, {0: every}, {}, source)
            try:
                answers = ask(query)
            except StatementError:
                deadline.check()
                return None
            cells, lists = (answers.column(one).combine_chunks() for one in ("__cell", "__k0"))
            if not pa.types.is_boolean(lists.type.value_type):
                return None
            yes, no = np.zeros((2, len(cells), len(conditions)), dtype=np.bool_)
            told = lists.flatten()
            yes[cells] = told.fill_null(False).to_numpy(False).reshape(yes.shape)
            no[cells] = ~told.fill_null(True).to_numpy(False).reshape(no.shape)
            for number, condition in enumerate(conditions):
                truths[condition] = Truth(yes[:, number], no[:, number])
        return truths


def values_of(case: exp.Case, ask: Ask) -> pa.Array | None:
    """What DuckDB makes of each branch of a CASE of constants, and of its ELSE; None if it is none.

    They are of one type, the CASE's, which follows from all of them.
    """
    results = [branch.args["true"] for branch in case.args["ifs"]]
    if case.this is not None or any(
        one.find(exp.Column, exp.Query) for one in [*results, *filter(None, [case.args["default"]])]
    ):
        return None
    numbered = case.copy()
    for number, branch in enumerate(numbered.args["ifs"]):
        is_it = exp.EQ(this=exp.column("i", quoted=True), expression=exp.Literal.number(number))
        branch.set("this", is_it)
    sql = numbered.sql("duckdb", identify=True, comments=False)
    try:
        values = ask(f'SELECT {sql} AS v FROM range({len(results) + 1}) AS t("i") ORDER BY "i"')
    except StatementError:
        deadline.check()
        return None
    return values.column("v").combine_chunks()
