"""Variances and standard deviations: three linear queries, and arithmetic on their answers.

For any constant c, with n = count(x), s = Σ (x − c) and q = Σ (x − c)²,

    var_pop = (q − s²/n) / n,    var_samp = (q − s²/n) / (n − 1),

and a standard deviation is the root of its variance. c is the middle of the values that x has in
the public domain where WHERE and FILTER hold: it depends on no record, and of all constants it
minimises the largest (x − c)², and with it the noise of q. As in PostgreSQL and DuckDB, the
variance of no value is NULL, and so is var_samp of one. Noise can make q − s²/n negative, which no
variance is; it then counts as 0, which is nearer to the truth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import pyarrow as pa
from sqlglot import exp

from tallyveil.errors import DatatypeMismatch, InvalidParameterValue
from tallyveil.rewriter.domain.components import LinearQuery, components
from tallyveil.rewriter.domain.domain_relation import coefficient_query
from tallyveil.rewriter.domain.integer_units import MAX_COEFFICIENT
from tallyveil.rewriter.engine.public_cursor import PublicCursor
from tallyveil.rewriter.private.block import Block
from tallyveil.rewriter.sql.nodes import as_type, function_name, position, unfiltered

__all__ = ["MOMENTS", "Centring", "centring", "moment", "with_filter_of"]

# (the number subtracted from n, whether the root is taken)
MOMENTS: Final[Mapping[type[exp.Expr], tuple[int, bool]]] = {
    exp.VariancePop: (0, False),
    exp.Variance: (1, False),
    exp.StddevPop: (0, True),
    exp.Stddev: (1, True),
    exp.StddevSamp: (1, True),
}


@dataclass(frozen=True)
class Centre:
    """c, as SQL and as a number. x − c is in units of ``10**-decimals``, or a double if None."""

    value: Fraction
    decimals: int | None

    @property
    def sql(self) -> exp.Expr:
        if self.decimals is None:
            return exp.cast(_number(repr(float(self.value))), "double")
        exact = Decimal(int(self.value * 10**self.decimals)).scaleb(-self.decimals)
        return _number(f"{exact:f}")

    def total(self, argument: exp.Expr) -> exp.Expr:
        """SQL for Σ (x − c), written Σ x if c is 0."""
        return exp.Sum(this=self._distance(argument) if self.value else argument.copy())

    def squares(self, argument: exp.Expr) -> exp.Expr:
        """SQL for Σ (x − c)² in squared units: integers that a double represents exactly."""
        distance = self._distance(argument) if self.value else exp.paren(argument.copy())
        if self.decimals:
            units = as_type(distance, f"decimal(18, {self.decimals})")
            distance = exp.Mul(this=units, expression=_number(str(10**self.decimals)))
        units = exp.cast(distance, "double")
        return exp.Sum(this=exp.Mul(this=units, expression=units.copy()))

    def _distance(self, argument: exp.Expr) -> exp.Expr:
        return exp.Sub(this=exp.paren(argument.copy()), expression=exp.paren(self.sql))


Centring = Callable[[exp.Expr], Centre]


def with_filter_of(node: exp.Expr, aggregate: exp.Expr) -> exp.Expr:
    """The aggregate with the FILTER of ``node``, if any."""
    if isinstance(node, exp.Filter):
        return exp.Filter(this=aggregate, expression=node.expression.copy())
    return aggregate


def moment(
    node: exp.Expr, count: exp.Expr, total: exp.Expr, squares: exp.Expr, centre: Centre
) -> exp.Expr:
    """The variance or deviation from n, s (a double) and q (in squared units) of noisy rows."""
    subtracted, root = MOMENTS[type(unfiltered(node))]
    if centre.decimals:
        squares = exp.Div(this=squares, expression=_number(f"1e{2 * centre.decimals}"))
    parts = [count, total, squares, _number(str(subtracted))]
    variance = exp.Anonymous(this="__variance", expressions=parts)
    return exp.Sqrt(this=variance) if root else variance


def centring(block: Block, cursor: PublicCursor) -> Centring:
    """Return a function that computes the centre of an aggregate's argument from the domain.

    It raises InvalidParameterValue if squares have more than 52 bits, and DatatypeMismatch if the
    values are not numbers.
    """

    def centre(node: exp.Expr) -> Centre:
        aggregate = unfiltered(node)
        low, high, kind = _ends(block, cursor, node, aggregate.this)
        if pa.types.is_floating(kind):
            ends = [Fraction(end) for end in (low, high) if end is not None and math.isfinite(end)]
            return Centre(Fraction(float(sum(ends) / 2)) if len(ends) == 2 else Fraction(0), None)
        if not (pa.types.is_integer(kind) or pa.types.is_decimal(kind)):
            raise DatatypeMismatch(
                f"{function_name(aggregate)} over records takes numbers only",
                hint="Extract a number from the value first.",
                position=position(aggregate),
            )
        decimals = kind.scale if pa.types.is_decimal(kind) else 0
        if low is None:
            return Centre(Fraction(0), decimals)
        least, greatest = (int(Decimal(end).scaleb(decimals)) for end in (low, high))
        middle = (least + greatest) // 2
        if (greatest - middle) ** 2 > MAX_COEFFICIENT:
            raise InvalidParameterValue(
                f"values from {low} to {high} are too far apart for {function_name(aggregate)}: "
                "squared distances from their middle exceed 2^52 smallest units",
                hint="Divide the argument, or round it to fewer decimals.",
                position=position(aggregate),
            )
        return Centre(Fraction(middle, 10**decimals), decimals)

    return centre


def _ends(
    block: Block, cursor: PublicCursor, node: exp.Expr, argument: exp.Expr
) -> tuple[Any, Any, pa.DataType]:
    """The least and the greatest value in the domain's cells that match, and their type."""
    extremes = {
        number: with_filter_of(node, function(this=argument.copy()))
        for number, function in enumerate((exp.Min, exp.Max))
    }
    found = components(LinearQuery(block.domain, block.source, block.where, (), extremes))
    query = coefficient_query(next(c for c in found if c.coefficients))
    ends = cursor.arrow(f"SELECT min(__c0) AS low, max(__c1) AS high FROM ({query})")
    (row,) = ends.to_pylist()
    return row["low"], row["high"], ends.schema.field("low").type


def _number(text: str) -> exp.Expr:
    literal = exp.Literal.number(text.removeprefix("-"))
    return exp.Neg(this=literal) if text.startswith("-") else literal
