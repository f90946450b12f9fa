"""The domain relation: one row per cell of the mentioned attributes, with the cell's number.

It replaces the protected table, so that DuckDB computes each cell's coefficient with the analyst's
own SQL: a linear query's coefficient is its answer on the table with that one record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from tallyveil.errors import InvalidParameterValue, StatementTooComplex
from tallyveil.policy.domain import Attribute, Domain
from tallyveil.rewriter.domain.components import Component
from tallyveil.rewriter.engine.public_database import domain_table
from tallyveil.rewriter.resolve.branches import RECORD, DomainSource
from tallyveil.rewriter.sql.nodes import duckdb_sql, position, unlink

__all__ = [
    "MAX_CELLS", "MAX_COEFFICIENTS", "coefficient_query", "fits", "guarded", "is_duration",
    "too_slow", "without_records",
]  # fmt: skip

MAX_CELLS: Final = 4_000_000
MAX_COEFFICIENTS: Final = 12_000_000


def _relation(component: Component) -> str:
    """A parenthesised query for ``__cell`` (C-order over the component's axes) and their values.

    Raises InvalidParameterValue if the axes have more than MAX_CELLS cells together.
    """
    axes, cells = component.axes, component.cells
    if cells > MAX_CELLS:
        raise InvalidParameterValue(
            f"the statement combines {cells} cells; the limit is {MAX_CELLS}",
            detail=f"It mentions {_sizes(axes)}.",
            hint="Mention fewer attributes in one expression. Conditions joined by AND, group keys "
            "of different attributes, and tables joined by different attributes are not combined.",
        )
    if not axes:
        return "(SELECT CAST(0 AS BIGINT) AS __cell)"
    terms, values, sources = [], [], []
    stride = cells
    for number, axis in enumerate(axes):
        stride //= axis.size
        terms.append(f"a{number}.code * {stride}")
        values.append(f'a{number}.value AS "{axis.name}"')
        sources.append(f'"{domain_table(component.domain, axis)}" AS a{number}')
    return f"(SELECT {' + '.join(terms)} AS __cell, {', '.join(values)} FROM {', '.join(sources)})"


def coefficient_query(component: Component) -> str:
    """SQL for the rows (``__k…``, ``__cell``, ``__c…``): the matrix W, sparse.

    Keys have their numbers in the block, coefficients their places in `Component.columns`. Without
    joins and unions a cell is one row, so COUNT and SUM need no GROUP BY. A group that only public
    rows without a record have gets the coefficient 0 in some cell.

    Raises InvalidParameterValue if there are more than MAX_COEFFICIENTS coefficients.
    """
    _refuse_many(component)
    keys, where, source = component.keys, component.where, component.source
    columns = component.columns
    coefficients = {columns[number]: one for number, one in component.outputs.items()}
    grouped = not (source.plain and all(map(_of_rows, coefficients.values())))
    items = [*_keys(component), source.cell]
    for number, coefficient in coefficients.items():
        value = guarded(coefficient)
        if not grouped:
            value = _of_one_row(value)
        items.append(f"{duckdb_sql(value)} AS __c{number}")
        unlink([value])
    query = f"SELECT {', '.join(items)} FROM {source.sql(_relation(component))}"
    if where is not None:
        query += f" WHERE {duckdb_sql(where)}"
    if coefficients and grouped:
        query += " GROUP BY " + ", ".join(str(i + 1) for i in range(len(keys) + 1))
    if keys and component.kept is not None:
        query += f" UNION ALL {_kept_groups(component, *component.kept)}"
    if keys and not source.plain:
        # One cell may then be in several groups, whose order must be reproducible.
        query += " ORDER BY ALL"
    return query


def _keys(component: Component) -> list[str]:
    """The keys; durations in microseconds, since numpy and Arrow compare no intervals."""
    found = []
    for number, key in component.keys.items():
        sql = duckdb_sql(key)
        value = f"epoch_us({sql})" if is_duration(key, component.domain) else sql
        found.append(f"{value} AS __k{number}")
    return found


def is_duration(key: exp.Expr, domain: Domain) -> bool:
    """Whether a group key is an attribute of durations."""
    own = isinstance(key, exp.Column) and key.table == RECORD
    return own and domain[key.name].sql_type == "INTERVAL"


def _kept_groups(component: Component, source: DomainSource, where: exp.Expr | None) -> str:
    items = _keys(component)
    zeros = [f"CAST(0 AS TINYINT) AS __c{n}" for n in dict.fromkeys(component.columns.values())]
    items += ["CAST(0 AS BIGINT) AS __cell", *zeros]
    rows = without_records(component.domain, source, where)
    return f"SELECT DISTINCT {', '.join(items)} FROM {rows}"


def without_records(domain: Domain, source: DomainSource, where: exp.Expr | None) -> str:
    """FROM and WHERE of a block over no record: the public rows that its joins keep."""
    columns = [f'CAST(NULL AS {a.sql_type}) AS "{a.name}"' for a in domain.attributes]
    columns.append("CAST(NULL AS BIGINT) AS __cell")
    rows = source.sql(f"(SELECT {', '.join(columns)} WHERE false)")
    return rows if where is None else f"{rows} WHERE {duckdb_sql(where)}"


def guarded(coefficient: exp.Expr) -> exp.Expr:
    """A copy with FILTER as CASE in the argument. In SQL, sum(10 / n) FILTER (WHERE n <> 0) is no
    error, but DuckDB computes the argument for every row.
    """

    def as_case(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Filter) or isinstance(node.this.this, exp.Star):
            return node
        condition = exp.If(this=node.expression.this, true=node.this.this)
        node.this.set("this", exp.Case(ifs=[condition]))
        aggregate: exp.Expr = node.this
        return aggregate

    return coefficient.transform(as_case)


def _of_rows(coefficient: exp.Expr) -> bool:
    """Whether it has no aggregates but COUNT and SUM, and no query."""
    return all(
        type(node) in (exp.Count, exp.Sum) and not isinstance(node.this, exp.Distinct | exp.Order)
        for node in coefficient.find_all(exp.AggFunc, exp.Query)
    )


def _of_one_row(coefficient: exp.Expr) -> exp.Expr:
    """Rewrite counts and sums for a single row, in place. A count is 1 or 0. A sum is that of a
    list of one value, which has the type of a sum and is NULL for NULL. Only count(*) still has a
    FILTER.
    """

    def of_one_row(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Filter):
            return _counted(node.expression.this)
        if isinstance(node, exp.Sum):
            return exp.func("list_sum", exp.Array(expressions=[node.this]), copy=False)
        if not isinstance(node, exp.Count):
            return node
        if isinstance(node.this, exp.Star):
            return exp.cast(exp.Literal.number(1), "bigint", copy=False)
        null = exp.Is(this=exp.paren(node.this, copy=False), expression=exp.Null())
        return _counted(exp.Not(this=null))

    return coefficient.transform(of_one_row, copy=False)


def _counted(condition: exp.Expr) -> exp.Expr:
    one = exp.If(this=condition, true=exp.Literal.number(1))
    return exp.cast(exp.Case(ifs=[one], default=exp.Literal.number(0)), "bigint", copy=False)


def fits(component: Component) -> bool:
    """Whether the cells, and the coefficients of all outputs, are within the limits."""
    cells, aggregates = component.cells, len(set(component.columns.values()))
    return cells <= MAX_CELLS and cells * aggregates <= MAX_COEFFICIENTS


def _refuse_many(component: Component) -> None:
    cells, aggregates = component.cells, len(set(component.columns.values()))
    if cells <= MAX_CELLS and not fits(component):
        raise InvalidParameterValue(
            f"{aggregates} aggregates over {cells} cells have {cells * aggregates} coefficients; "
            f"the limit is {MAX_COEFFICIENTS}",
            detail=f"The statement mentions {_sizes(component.axes)}.",
            hint="Mention fewer attributes in one expression, or ask in several statements.",
        )


def too_slow(component: Component) -> StatementTooComplex:
    """The error for a statement that reached its time limit while evaluated on the domain."""
    where = component.where
    return StatementTooComplex(
        "evaluating the statement on the public domain took longer than the time limit",
        position=None if where is None else position(where),
        detail=f"It is evaluated for each of {component.cells} combinations of "
        f"{_sizes(component.axes)}. Nothing was charged.",
        hint="Write many comparisons joined by OR as a list: EXISTS (SELECT 1 FROM"
        " (VALUES (1, 2), …) AS v (x, y) WHERE x = a AND y = b). Or mention fewer attributes in"
        " one expression, or ask in several statements.",
    )


def _sizes(axes: Sequence[Attribute]) -> str:
    return " × ".join(f"{axis.name} ({axis.size})" for axis in axes)
