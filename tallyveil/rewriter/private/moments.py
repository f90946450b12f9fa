"""Variances, covariances, regressions, skewness and kurtosis: a few linear queries, and arithmetic
on their answers.

For any constants c and d, with n the number of records that have all arguments, and sums such as
x = Σ (X − c), xx = Σ (X − c)² and xy = Σ (X − c)(Y − d) over them,

    var_pop = (xx − x²/n) / n,    covar_pop = (xy − x·y/n) / n,    regr_slope = covar_pop / var_pop,

and so on: `MOMENTS` names the sums that each aggregate needs, `moment_macros` has the arithmetic. c
is the middle of the values that X has in the public domain where WHERE and FILTER hold: it depends
on no record, and of all constants it minimises the largest (X − c)², and with it the noise of xx.
As in PostgreSQL and DuckDB, the variance of no value is NULL, and so is var_samp of one. Noise can
make xx − x²/n negative, which no variance is; it then counts as 0, which is nearer to the truth, as
a correlation beyond 1 counts as 1. What is divided by a variance of 0 is NULL, as in PostgreSQL;
DuckDB has NaN for some.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping, Sequence
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
from tallyveil.rewriter.private.separable import not_null
from tallyveil.rewriter.sql.nodes import (
    as_type,
    call,
    conjunction,
    function_name,
    position,
    unfiltered,
)

__all__ = ["MOMENTS", "Centring", "Sums", "centring", "with_filter_of"]

# The macro of an aggregate, and its arguments: n, sums by the powers of x and y in them, the
# centres cx and cy, or numbers. The second argument of an aggregate is x where it has two.
MOMENTS: Final[Mapping[type[exp.Expr], tuple[str, ...]]] = {
    kind: tuple(written.split())
    for kind, written in {
        exp.VariancePop: "__variance n x xx 0",
        exp.Variance: "__variance n x xx 1",
        exp.StddevPop: "__deviation n x xx 0",
        exp.Stddev: "__deviation n x xx 1",
        exp.StddevSamp: "__deviation n x xx 1",
        exp.CovarPop: "__covariance n x y xy 0",
        exp.CovarSamp: "__covariance n x y xy 1",
        exp.Corr: "__correlation n x y xx xy yy",
        exp.RegrSlope: "__slope n x y xx xy",
        exp.RegrIntercept: "__intercept n x y xx xy cx cy",
        exp.RegrR2: "__determination n x y xx xy yy",
        exp.RegrAvgx: "__mean n x cx",
        exp.RegrAvgy: "__mean n y cy",
        exp.RegrSxx: "__product n x x xx",
        exp.RegrSyy: "__product n y y yy",
        exp.RegrSxy: "__product n x y xy",
        exp.Skewness: "__skewness n x xx xxx",
        exp.Kurtosis: "__kurtosis n x xx xxx xxxx",
    }.items()
}


@dataclass(frozen=True)
class Centre:
    """c, as SQL and as a number. x − c is in units of ``10**-decimals``, at most ``reach`` of them,
    or a double if None. ``ends`` are the least and the greatest x."""

    value: Fraction
    decimals: int | None
    reach: int = 0
    ends: tuple[Any, Any] = (None, None)

    @property
    def sql(self) -> exp.Expr:
        if self.decimals is None:
            return exp.cast(_number(repr(float(self.value))), "double")
        exact = Decimal(int(self.value * 10**self.decimals)).scaleb(-self.decimals)
        return _number(f"{exact:f}")

    def distance(self, argument: exp.Expr) -> exp.Expr:
        """SQL for x − c, written x if c is 0."""
        if not self.value:
            return exp.paren(argument.copy())
        return exp.Sub(this=exp.paren(argument.copy()), expression=exp.paren(self.sql))

    def units(self, argument: exp.Expr) -> exp.Expr:
        """SQL for x − c in units, which a double represents exactly."""
        distance = self.distance(argument)
        if self.decimals:
            units = as_type(distance, f"decimal(18, {self.decimals})")
            distance = exp.Mul(this=units, expression=_number(str(10**self.decimals)))
        return exp.cast(distance, "double")


Centring = Callable[[exp.Expr, exp.Expr], Centre]
"""The centre of a value where the FILTER of an aggregate holds, if it has one."""


def with_conditions(aggregate: exp.Expr, conditions: Sequence[exp.Expr]) -> exp.Expr:
    """The aggregate of the rows for which all conditions hold."""
    if not conditions:
        return aggregate
    parts = [part.copy() for part in conditions]
    whole = parts[0] if len(parts) == 1 else conjunction([exp.paren(part) for part in parts])
    return exp.Filter(this=aggregate, expression=exp.Where(this=whole))


def with_filter_of(node: exp.Expr, aggregate: exp.Expr) -> exp.Expr:
    """The aggregate with the FILTER of ``node``, if any."""
    if isinstance(node, exp.Filter):
        return exp.Filter(this=aggregate, expression=node.expression.copy())
    return aggregate


class Sums:
    """The sums that an aggregate needs, each as ``output`` makes it a column of noisy rows.

    ``summed`` are the sums that the block needs anyway: Σ (x − c) comes from Σ x then.
    """

    def __init__(
        self,
        node: exp.Expr,
        block: Block,
        centre: Centring,
        output: Callable[[exp.Expr], exp.Expr],
        summed: Container[exp.Expr],
    ) -> None:
        aggregate = unfiltered(node)
        second = aggregate.args.get("expression")
        self._aggregate, self._output, self._summed = aggregate, output, summed
        self._values = {"x": aggregate.this} if second is None else {
            "x": second, "y": aggregate.this
        }  # fmt: skip
        own = [] if node is aggregate else [node.expression.this]
        present = {name: not_null(block.domain, [value]) for name, value in self._values.items()}
        self._own, self._present = own, present if second is not None else {}
        whole = with_conditions(aggregate, self._conditions(""))
        self._centres = {name: centre(whole, value) for name, value in self._values.items()}

    @property
    def macro(self) -> exp.Expr:
        """The aggregate as arithmetic on its sums."""
        name, *arguments = MOMENTS[type(self._aggregate)]
        return call(name, *map(self._argument, arguments))

    def _argument(self, name: str) -> exp.Expr:
        if name.isdigit():
            return _number(name)
        if name.startswith("c"):
            return exp.cast(self._centres[name[1:]].sql, "double")
        if name == "n":
            return self._count()
        return self._linear(name) if len(name) == 1 else self._product(name)

    def _conditions(self, powers: str) -> list[exp.Expr]:
        """FILTER, and that the arguments that a sum does not mention are there."""
        others = (found for name, found in self._present.items() if name not in powers)
        return [*self._own, *(condition for found in others for condition in found)]

    def _sum(self, value: exp.Expr, powers: str) -> exp.Expr:
        return with_conditions(exp.Sum(this=value), self._conditions(powers))

    def _count(self) -> exp.Expr:
        counted = exp.Star() if self._present else self._values["x"].copy()
        return self._output(with_conditions(exp.Count(this=counted), self._conditions("")))

    def _linear(self, name: str) -> exp.Expr:
        """Σ (x − c), from Σ x if the block needs Σ x anyway."""
        value, centre = self._values[name], self._centres[name]
        plain = self._sum(value.copy(), name)
        if plain in self._summed and centre.value:
            shift = exp.Mul(this=exp.paren(centre.sql), expression=self._count())
            return exp.Sub(this=exp.cast(self._output(plain), "double"), expression=shift)
        centred = self._sum(centre.distance(value), name) if centre.value else plain
        return exp.cast(self._output(centred), "double")

    def _product(self, powers: str) -> exp.Expr:
        """Σ of a product of distances, in units that are integers."""
        centres = [self._centres[name] for name in powers]
        if math.prod(centre.reach for centre in centres) > MAX_COEFFICIENT:
            squares = "squared" if powers in ("xx", "yy") else "products of"
            low, high = max(centres, key=lambda centre: centre.reach).ends
            name = function_name(self._aggregate)
            raise InvalidParameterValue(
                f"values from {low} to {high} are too far apart for {name}: "
                f"{squares} distances from their middle exceed 2^52 smallest units",
                hint="Divide the argument, or round it to fewer decimals.",
                position=position(self._aggregate),
            )
        first, *others = (
            centre.units(self._values[name]) for name, centre in zip(powers, centres, strict=True)
        )
        for other in others:
            first = exp.Mul(this=first, expression=other)
        total = self._output(self._sum(first, powers))
        decimals = sum(centre.decimals or 0 for centre in centres)
        return exp.Div(this=total, expression=_number(f"1e{decimals}")) if decimals else total


def centring(block: Block, cursor: PublicCursor) -> Centring:
    """Return a function that computes the centre of an aggregate's argument from the domain.

    It raises DatatypeMismatch if the values are not numbers.
    """

    def centre(node: exp.Expr, argument: exp.Expr) -> Centre:
        low, high, kind = _ends(block, cursor, node, argument)
        if pa.types.is_floating(kind):
            ends = [Fraction(end) for end in (low, high) if end is not None and math.isfinite(end)]
            return Centre(Fraction(float(sum(ends) / 2)) if len(ends) == 2 else Fraction(0), None)
        if not (pa.types.is_integer(kind) or pa.types.is_decimal(kind)):
            raise DatatypeMismatch(
                f"{function_name(unfiltered(node))} over records takes numbers only",
                hint="Extract a number from the value first.",
                position=position(unfiltered(node)),
            )
        decimals = kind.scale if pa.types.is_decimal(kind) else 0
        if low is None:
            return Centre(Fraction(0), decimals)
        least, greatest = (int(Decimal(end).scaleb(decimals)) for end in (low, high))
        middle = (least + greatest) // 2
        return Centre(Fraction(middle, 10**decimals), decimals, greatest - middle, (low, high))

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
