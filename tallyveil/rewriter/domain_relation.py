"""The domain relation: one row per cell of the mentioned attributes, with the cell's number.

Put in the place of the protected table, it lets DuckDB compute each cell's coefficient with the
analyst's own SQL: a linear query's coefficient is its answer on the table with that one record.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from sqlglot import exp

from tallyveil.errors import InvalidParameterValue
from tallyveil.policy.domain import Attribute, Domain
from tallyveil.rewriter.branches import Source
from tallyveil.rewriter.database import domain_table

__all__ = ["MAX_CELLS", "MAX_COEFFICIENTS", "coefficient_query", "relation"]

MAX_CELLS: Final = 4_000_000
MAX_COEFFICIENTS: Final = 12_000_000


def relation(domain: Domain, mentioned: frozenset[str]) -> str:
    """A parenthesised query: ``__cell`` (C-order over the mentioned axes) and their values.

    Raises InvalidParameterValue where the axes have more than MAX_CELLS cells together.
    """
    axes = domain.project(mentioned)
    cells = math.prod(axis.size for axis in axes)
    if cells > MAX_CELLS:
        raise InvalidParameterValue(
            f"the statement ties together {cells} cells; the limit is {MAX_CELLS}",
            detail=f"It mentions {_sizes(axes)}.",
            hint="Mention fewer attributes in one expression. Conditions joined by AND and group "
            "keys that mention different attributes do not tie them together.",
        )
    if not axes:
        return "(SELECT CAST(0 AS BIGINT) AS __cell)"
    terms, values, sources = [], [], []
    stride = cells
    for number, axis in enumerate(axes):
        stride //= axis.size
        terms.append(f"a{number}.code * {stride}")
        values.append(f'a{number}.value AS "{axis.name}"')
        sources.append(f'"{domain_table(domain, axis)}" AS a{number}')
    return f"(SELECT {' + '.join(terms)} AS __cell, {', '.join(values)} FROM {', '.join(sources)})"


def coefficient_query(
    domain: Domain,
    mentioned: frozenset[str],
    where: exp.Expr | None,
    keys: Mapping[int, exp.Expr],
    coefficients: Mapping[int, exp.Expr],
    source: Source,
) -> str:
    """SQL whose rows are (``__k…``, ``__cell``, ``__c…``): W, sparse, as DuckDB computes it.

    Keys and coefficients go by their numbers.

    Raises InvalidParameterValue where there are more than MAX_COEFFICIENTS of them.
    """
    _refuse_many(domain, mentioned, len(coefficients))
    items = [f"{_sql(key)} AS __k{number}" for number, key in keys.items()]
    items.append(source.cell)
    items += [f"{_sql(c)} AS __c{number}" for number, c in coefficients.items()]
    query = f"SELECT {', '.join(items)} FROM {source.sql(relation(domain, mentioned))}"
    if where is not None:
        query += f" WHERE {_sql(where)}"
    if coefficients:
        query += " GROUP BY " + ", ".join(str(i + 1) for i in range(len(keys) + 1))
    if keys and not source.plain:
        # One cell may lie in several groups then, whose order is to be the same every time.
        query += " ORDER BY ALL"
    return query


def _refuse_many(domain: Domain, mentioned: frozenset[str], aggregates: int) -> None:
    axes = domain.project(mentioned)
    cells = math.prod(axis.size for axis in axes)
    if cells * aggregates > MAX_COEFFICIENTS and cells <= MAX_CELLS:
        raise InvalidParameterValue(
            f"{aggregates} aggregates over {cells} cells have {cells * aggregates} coefficients; "
            f"the limit is {MAX_COEFFICIENTS}",
            detail=f"The statement mentions {_sizes(axes)}.",
            hint="Mention fewer attributes in one expression, or ask in several statements.",
        )


def _sizes(axes: Sequence[Attribute]) -> str:
    return " × ".join(f"{axis.name} ({axis.size})" for axis in axes)


def _sql(node: exp.Expr) -> str:
    return node.sql("duckdb", identify=True, comments=False)
