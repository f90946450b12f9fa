"""Intervals of expressions over several outputs of noisy rows: averages, ratios, differences.

    100.0 * count(*) FILTER (WHERE sex = 'F') / count(*)    is    100.0 * __c0 / __c1

over the noisy rows: a `Quotient` of two linear combinations of outputs, as averages are and, with
the denominator 1, differences of counts. The gate computes its interval from the joint law of their
errors, as the columns ``__ql0 …`` and ``__qh0 …`` of the noisy table. Functions that never fall,
such as round, are applied to the ends. The ends of a sum or difference of two quotients are sums of
theirs, of which each holds with half of the error probability. Variances, regressions and the like
are a `Moment`, with an interval of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Final, TypeAlias

from sqlglot import exp

from tallyveil.errors import FeatureNotSupported
from tallyveil.rewriter.engine.moment_macros import PARAMETERS
from tallyveil.rewriter.private.block import NOISY
from tallyveil.rewriter.private.linear import number_of
from tallyveil.rewriter.query_plan import STATISTIC, Moment, NoisyTable, Quotient, Share
from tallyveil.rewriter.sql.nodes import call, function_name, position
from tallyveil.rewriter.sql.vocabulary import SUMS

__all__ = ["Quotients", "refused"]

_Terms: TypeAlias = dict[tuple[str | None, int], Fraction]
_Linear: TypeAlias = tuple[_Terms, Fraction]
"""Σ coefficient · output + constant."""
_Ends: TypeAlias = tuple[exp.Expr, exp.Expr]

_NAMED: Final = frozenset(("n", "x", "y", "xx", "xy", "yy", "lost", "cx", "cy"))
_RANKS: Final = (exp.RowNumber, exp.Rank, exp.DenseRank)
_NUMBERS: Final = exp.DataType.NUMERIC_TYPES
_WHOLE: Final = exp.DataType.INTEGER_TYPES


class Quotients:
    """What is asked of quotients of one noisy table's outputs. ``column`` makes the expression that
    stands for one of its columns; ``tables`` are the noisy tables planned before, by name."""

    def __init__(self, column: Callable[[str], exp.Expr], tables: Mapping[str, NoisyTable]) -> None:
        self._column = column
        self._tables = tables
        self._asked: dict[Quotient | Moment, set[str]] = {}

    @property
    def columns(self) -> tuple[tuple[Quotient | Moment, str], ...]:
        """The quotients, and the letters of what is asked of each."""
        return tuple((one, "".join(sorted(own))) for one, own in self._asked.items())

    def about(self, function: exp.Anonymous, value: exp.Expr) -> exp.Expr:
        """What a function of an answer is of ``value``, an expression over noisy rows. Raises
        FeatureNotSupported if that is no expression of this kind."""
        name, found = function_name(function), None
        if name == "dp_stddev":
            quotient = self._quotient(value)
            if quotient is not None and not quotient.bottom:
                found = self._column(f"__qs{self._number(quotient, 's')}")
        elif name != "dp_probability":
            ends = self._ends(value, 1)
            found = None if ends is None else ends[name == "dp_interval_high"]
        if found is None:
            raise refused(function)
        return exp.paren(found)

    def note(self, values: Iterable[exp.Expr]) -> None:
        """Add the quotients that these values show, for the notice."""
        left = [*values]
        while left:
            node = left.pop()
            if isinstance(node, exp.Query):
                continue
            found = self._quotient(node)
            if found is None:
                left += node.iter_expressions()
            elif found.bottom:
                self._number(found, "")

    def _number(self, quotient: Quotient | Moment, columns: str) -> int:
        self._asked.setdefault(quotient, set()).update(columns)
        return [*self._asked].index(quotient)

    def _ends(self, node: exp.Expr, of: int) -> _Ends | None:
        """The ends of an expression's interval, with one ``of`` so many parts of the error."""
        found = self._quotient(node) or self._moment(node)
        if found is not None:
            number = self._number(found._replace(of=of), "lh")
            low, high = (self._column(f"__q{end}{number}") for end in "lh")
            if isinstance(node.unnest(), exp.IntDiv):  # of doubles it divides them as they are
                low, high = (_truncated(end, node) for end in (low, high))
            return low, high
        match node:
            case exp.Paren():
                return self._ends(node.this, of)
            case exp.Neg():
                return _negative(self._ends(node.this, of))
            case exp.Add() | exp.Sub():
                return self._sum(node, of)
            case exp.Mul() | exp.Div():
                return self._multiple(node, of)
            case exp.Cast() if node.to.this in _NUMBERS:
                inner = self._ends(node.this, of)
                if inner is None or node.to.this not in _WHOLE:
                    return inner
                return exp.Round(this=inner[0]), exp.Round(this=inner[1])
            case exp.Round() | exp.Floor() | exp.Ceil() | exp.Trunc():
                inner = self._ends(node.this, of)
                others = [one for one in node.iter_expressions() if one is not node.this]
                if inner is None or any(number_of(one) is None for one in others):
                    return None
                low, high = node.copy(), node.copy()
                low.set("this", inner[0])
                high.set("this", inner[1])
                return low, high
        return None

    def _sum(self, node: exp.Add | exp.Sub, of: int) -> _Ends | None:
        sides = node.this, node.expression
        fixed = [number_of(side) is not None for side in sides]
        left, right = (
            (side.copy(), side.copy()) if own else self._ends(side, of if any(fixed) else 2 * of)
            for side, own in zip(sides, fixed, strict=True)
        )
        right = _negative(right) if isinstance(node, exp.Sub) else right
        if left is None or right is None:
            return None
        low, high = (exp.Add(this=a, expression=b) for a, b in zip(left, right, strict=True))
        return exp.paren(low), exp.paren(high)

    def _multiple(self, node: exp.Mul | exp.Div, of: int) -> _Ends | None:
        """A quotient times a constant, or divided by one."""
        other, scale = node.this, node.expression
        if isinstance(node, exp.Mul) and number_of(scale) is None:
            other, scale = scale, other
        factor = number_of(scale)
        ends = self._ends(other, of) if factor else None
        if ends is None or not factor:
            return None
        low, high = (
            exp.paren(type(node)(this=end, expression=exp.paren(scale.copy()))) for end in ends
        )
        return (low, high) if factor > 0 else (high, low)

    def _moment(self, node: exp.Expr) -> Moment | None:
        """A variance or the like; None if it is none, or has powers beyond squares."""
        names = PARAMETERS.get(node.name) if isinstance(node, exp.Anonymous) else None
        if names is None or not _NAMED.issuperset(names):
            return None
        forms = [self._linear(argument) for argument in node.expressions]
        found = [form for form in forms if form is not None]
        if len(found) < len(names):
            return None
        sums = tuple(
            (name, _shares(of), more) for name, (of, more) in zip(names, found, strict=True)
        )
        return Moment(node.name, sums)

    def _quotient(self, node: exp.Expr) -> Quotient | None:
        """The expression as a quotient of linear combinations; None if it is none."""
        node = _bare(node)
        if isinstance(node, exp.Subquery):
            return self._of_one_row(node.this)
        if isinstance(node, exp.Case):
            node = _average(node) or node
        if isinstance(node, exp.Div | exp.IntDiv):
            return self._divided(node.this, node.expression)
        if isinstance(node, exp.Mul):
            for scale, other in ((node.this, node.expression), (node.expression, node.this)):
                factor, inner = number_of(scale), self._quotient(other)
                whole = isinstance(other.unnest(), exp.IntDiv)  # perhaps truncated
                if factor and inner is not None and inner.bottom and not whole:
                    top = tuple(share._replace(times=share.times * factor) for share in inner.top)
                    return inner._replace(top=top, above=inner.above * factor)
        return self._divided(node, exp.Literal.number(1))

    def _of_one_row(self, select: exp.Expr) -> Quotient | None:
        """As `_quotient`, of a query that selects this from a noisy table of one row alone."""
        clauses = {name for name, value in select.args.items() if value}
        if clauses != {"expressions", "from_"} or len(select.expressions) != 1:
            return None
        source = select.args["from_"].this
        table = self._tables.get(source.name) if isinstance(source, exp.Table) else None
        inner = self._quotient(select.expressions[0].unalias())
        if table is None or table.keys.num_columns or inner is None:
            return None
        if any(share.table is not None for share in inner.shares):
            return None
        sides = inner.top, inner.bottom
        top, bottom = (tuple(s._replace(table=table.name) for s in side) for side in sides)
        return inner._replace(top=top, bottom=bottom)

    def _divided(self, top: exp.Expr, bottom: exp.Expr) -> Quotient | None:
        above, below = self._linear(top), self._linear(bottom)
        if above is None or below is None or not (above[0] or below[0]) or not any(below):
            return None
        if not below[0]:
            above, below = _times(above, 1 / below[1]), ({}, Fraction(1))
        return Quotient(_shares(above[0]), above[1], _shares(below[0]), below[1])

    def _linear(self, node: exp.Expr) -> _Linear | None:
        node = _bare(node)
        value = number_of(node)
        if value is not None:
            return {}, value
        if _is_output(node):
            return {(None, int(node.name.removeprefix("__c"))): Fraction(1)}, Fraction(0)
        if isinstance(node, exp.Neg):
            inner = self._linear(node.this)
            return inner and _times(inner, Fraction(-1))
        if isinstance(node, exp.Subquery):
            one = self._of_one_row(node.this)
            if one is None or one.bottom:
                return None
            return {(share.table, share.output): share.times for share in one.top}, one.above
        if not isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div):
            return None
        left, right = self._linear(node.this), self._linear(node.expression)
        if left is None or right is None:
            return None
        if isinstance(node, exp.Add | exp.Sub):
            return _added(left, right if isinstance(node, exp.Add) else _times(right, Fraction(-1)))
        if isinstance(node, exp.Div):
            return None if right[0] or not right[1] else _times(left, 1 / right[1])
        if left[0] and right[0]:
            return None
        return _times(left, right[1]) if left[0] else _times(right, left[1])


def refused(function: exp.Anonymous) -> FeatureNotSupported:
    """What else to write where an expression has no interval, deviation or probability."""
    name, window = function_name(function), function.find(exp.Window)
    what, bounds = "a COUNT, a SUM or a sum or difference of them in one query", ""
    if name.startswith("dp_interval"):
        what = "a COUNT, a SUM, an AVG or a sum, difference or quotient of them in one query"
    elif name == "dp_probability":
        bounds, what = ", 0, 100", f"{what}, and two numbers"
    hint = f"SELECT n, {name}(n{bounds}) FROM (SELECT count(*) AS n FROM …) AS t"
    if window is not None and isinstance(window.this, _RANKS):
        hint = (
            "Compare intervals of the column that is ranked: a row is above another if its"
            " dp_interval_low is above the other's dp_interval_high."
        )
    elif window is not None:
        hint = (
            "Add up all groups of a query, in an order by their keys:"
            " sum(count(*)) OVER (ORDER BY day). Other windows have no intervals."
        )
    elif function.find(*SUMS[2:]) is not None:
        hint = (
            "Variances, covariances, correlations and regressions have intervals, each by itself"
            " and in sums and multiples; skewness, kurtosis and what else is computed from them"
            " have none."
        )
    elif name == "dp_stddev":
        hint += "; an average or a quotient has dp_interval_low and dp_interval_high"
    return FeatureNotSupported(f"{name} takes {what}", hint=hint, position=position(function))


def _shares(terms: _Terms) -> tuple[Share, ...]:
    return tuple(Share(*key, times) for key, times in sorted(terms.items(), key=str))


def _negative(ends: _Ends | None) -> _Ends | None:
    return ends and (exp.Neg(this=exp.paren(ends[1])), exp.Neg(this=exp.paren(ends[0])))


def _times(linear: _Linear, factor: Fraction) -> _Linear:
    return {key: times * factor for key, times in linear[0].items() if factor}, linear[1] * factor


def _added(left: _Linear, right: _Linear) -> _Linear:
    every = dict(left[0])
    for key, times in right[0].items():
        every[key] = every.get(key, Fraction(0)) + times
    return {key: times for key, times in every.items() if times}, left[1] + right[1]


def _is_output(node: exp.Expr) -> bool:
    """Whether it is a count or a sum: the errors of other statistics are in no joint law."""
    if not isinstance(node, exp.Column) or node.table != NOISY or not node.name.startswith("__c"):
        return False
    return int(node.name.removeprefix("__c")) < STATISTIC


def _bare(node: exp.Expr) -> exp.Expr:
    """Without what leaves a number as it is: casts to types with fractions, and NULLIF of 0."""
    while True:
        kind = node.to.this if isinstance(node, exp.Cast) else None
        nullif = isinstance(node, exp.Nullif) and number_of(node.expression) == 0
        cast = kind in _NUMBERS and (kind not in _WHOLE or _is_output(node.this))
        if not (isinstance(node, exp.Paren) or nullif or cast):
            return node
        node = node.this


def _truncated(end: exp.Expr, division: exp.Expr) -> exp.Expr:
    """The end of a quotient's interval, truncated if the division is of integers."""
    whole = exp.EQ(this=call("typeof", division.copy()), expression=exp.Literal.string("DOUBLE"))
    return exp.Case(ifs=[exp.If(this=whole, true=end)], default=call("trunc", end.copy()))


def _average(node: exp.Case) -> exp.Expr | None:
    """The quotient in what `outputs.average` makes; None for another CASE."""
    ifs = node.args["ifs"]
    if len(ifs) != 1 or node.this is not None or node.args.get("default") is not None:
        return None
    condition, ratio = ifs[0].this, ifs[0].args["true"]
    same = isinstance(condition, exp.GT) and isinstance(ratio, exp.Div)
    return ratio if same and condition.this == ratio.expression else None
