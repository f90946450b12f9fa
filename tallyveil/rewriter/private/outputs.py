"""The outputs of a block: each aggregate and each key becomes a column of the noisy rows.

`Outputs.rewrite` turns an expression over records into one over the noisy rows. Group keys become
``__noisy.__k0 …`` and aggregates ``__noisy.__c0 …``. The ends of an aggregate's interval are in
``__l0 …`` and ``__u0 …``, its standard deviation in ``__s0 …``, and probabilities of claims in
``__p0 …``; of several aggregates they are as `quotients` has them. The rest is unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal, TypeAlias

from sqlglot import exp

from tallyveil import deadline
from tallyveil.cache import cached_property
from tallyveil.errors import FeatureNotSupported, GroupingError, StatementTooComplex
from tallyveil.rewriter.domain.domain_relation import is_duration
from tallyveil.rewriter.intervals.claims import Evaluator, claim_ends
from tallyveil.rewriter.intervals.quotients import Quotients, refused
from tallyveil.rewriter.private.block import NOISY, Block
from tallyveil.rewriter.private.linear import Linear, Term, is_statistic, linear
from tallyveil.rewriter.private.moments import MOMENTS, Centring, Sums, with_filter_of
from tallyveil.rewriter.private.separable import has_too_many_cells, split_total
from tallyveil.rewriter.private.windows import added_up, is_sum_of_groups
from tallyveil.rewriter.query_plan import STATISTIC, Claim, NoisyTable
from tallyveil.rewriter.resolve.branches import is_resolved
from tallyveil.rewriter.resolve.record_queries import is_aggregate, outer_columns, own_nodes
from tallyveil.rewriter.sql.nodes import call, filtered, function_name, position, unfiltered
from tallyveil.rewriter.sql.vocabulary import ABOUT_ANSWERS

__all__ = ["Outputs", "WhichWindows", "average"]

MAX_AGGREGATES: Final = 500
MAX_GROUPING: Final = 31  # PostgreSQL's
WhichWindows: TypeAlias = Literal["all", "asked", "none"]
_ABOUT: Final = {"dp_interval_low": "l", "dp_interval_high": "u", "dp_stddev": "s"}


class Outputs:
    """Collects, for one block, the distinct linear queries its expressions need.

    ``coefficients[i]`` is SQL over the domain relation, grouped by cell: the coefficient of
    output i in that cell. ``statistics`` and ``extremes`` are the numbers of distinct counts and
    quantiles, from `STATISTIC` on, and of MIN and MAX. ``cancelled`` are the numbers of outputs
    whose terms add up to 0, ``deviations`` those whose standard deviation is needed, ``claims`` the
    claims by number, and ``quotients`` what is needed of several outputs, perhaps of the noisy
    ``tables`` planned before. ``windows`` are those over the noisy rows, by number, whose frames
    add up an output's rows: their coefficients are those of what is added up. They are ``all``, or
    those whose intervals or the like are ``asked``.
    """

    def __init__(
        self,
        block: Block,
        centre: Centring,
        evaluate: Evaluator,
        tables: Mapping[str, NoisyTable],
        windows: WhichWindows,
    ) -> None:
        self._block, self._centre = block, centre
        self._evaluate = evaluate
        self._keys = {key: number for number, key in enumerate(block.groups.keys)}
        self._several = block.groups.several
        self._select = block.select
        self._domain, self._splits = block.domain, len(block.source.branches) == 1
        self.coefficients: list[exp.Expr] = []
        self.cancelled: set[int] = set()
        self.deviations: dict[int, None] = {}
        self.claims: dict[Claim, int] = {}
        self.quotients = Quotients(_noisy, tables)
        self.windows: dict[int, exp.Window] = {}
        filtered_after = any(block.select.args.get(name) for name in ("having", "qualify"))
        self._added_up = "none" if block.groups.several or filtered_after else windows
        about = (n for n in own_nodes(block.select) if isinstance(n, exp.Anonymous))
        self._asked = {
            window
            for node in about
            if function_name(node) in ABOUT_ANSWERS
            for window in node.find_all(exp.Window)
        }
        self._numbers: dict[tuple[exp.Expr, exp.Window | None], int] = {}
        self.statistics: dict[exp.Expr, int] = {}
        self.extremes: dict[exp.Expr, int] = {}
        clauses = [block.select.args.get(name) for name in ("having", "qualify", "order")]
        self._alone = self._needed_alone(
            [*block.select.expressions, *(c for c in clauses if c is not None)]
        )

    @property
    def width(self) -> int:
        """The number of values that each group has."""
        return len(self.coefficients) + len(self.deviations) + len(self.claims)

    def _statistic(self, node: exp.Expr) -> int:
        return self.statistics.setdefault(node, STATISTIC + len(self.statistics))

    @cached_property
    def _summed(self) -> set[exp.Expr]:
        """The sums that SUM and AVG need, each with its FILTER."""
        return {
            with_filter_of(filtered(node), exp.Sum(this=node.this.copy()))
            for node in own_nodes(self._select)
            if isinstance(node, exp.Sum | exp.Avg) and is_aggregate(node)
        }

    def _needed_alone(self, parts: list[exp.Expr]) -> set[exp.Expr]:
        """The aggregates that some expression needs as outputs."""
        alone: set[exp.Expr] = set()
        stack = list(parts)
        while stack:
            node = stack.pop()
            form = linear(node) if not isinstance(node, exp.Query) else None
            if form is not None and len(form.terms) != 1:
                continue
            if form is not None:
                alone.add(form.terms[0].aggregate)
            elif not isinstance(node, exp.Query):
                stack.extend(node.iter_expressions())
        return alone

    def rewrite(self, node: exp.Expr) -> exp.Expr:
        """Return the same expression over the noisy rows.

        Raises GroupingError if an attribute is neither a group key nor inside an aggregate.
        """
        if node in self._keys:
            key = _noisy(f"__k{self._keys[node]}")
            return call("to_microseconds", key) if is_duration(node, self._domain) else key
        if isinstance(node, exp.Query):
            return self._query(node)
        if isinstance(node, exp.Window):
            return self._window(node)
        if isinstance(node, exp.Grouping):
            return self._grouping(node)
        if isinstance(node, exp.Anonymous) and function_name(node) in ABOUT_ANSWERS:
            return self._about(node)
        if isinstance(unfiltered(node), exp.Avg):
            return self._average(node)
        if type(unfiltered(node)) in MOMENTS:
            return self._moment(node)
        if is_statistic(node):
            return _noisy(f"__c{self._statistic(node)}")
        if isinstance(unfiltered(node), exp.Min | exp.Max) and is_aggregate(node):
            fixed = _noisy(f"__v{self.extremes.setdefault(node, len(self.extremes))}")
            if not self._block.extremes:
                return fixed
            return exp.func("coalesce", fixed, _noisy(f"__c{self._statistic(node)}"))
        if is_aggregate(node):
            return self._counted(node)
        form = linear(node)
        if form is not None and len(form.terms) > 1 and not self._one_by_one(form):
            return exp.paren(self._output(form))
        if isinstance(node, exp.Column) and is_resolved(node):
            raise GroupingError(
                f'column "{node.name}" must appear in GROUP BY or inside an aggregate',
                position=position(node),
            )
        copy = node.copy()
        self._replace(copy.iter_expressions(), node.iter_expressions())
        return copy

    def _query(self, node: exp.Expr) -> exp.Expr:
        """Rewrite the group keys in a query nested above the aggregation."""
        copy = node.copy()
        self._replace(outer_columns(copy), outer_columns(node))
        return copy

    def _counted(self, aggregate: exp.Expr) -> exp.Expr:
        """A COUNT or SUM, split into parts if it would need too many cells together."""
        if not self._splits:
            return self._output(_single(aggregate))
        first, *others = (
            self._output(_single(part)) for part in split_total(self._domain, aggregate)
        )
        for other in others:
            first = exp.Add(this=first, expression=other)
        return exp.paren(first) if others else first

    def _one_by_one(self, form: Linear) -> bool:
        """Whether each term is an output: all are needed, or have too many cells together."""
        if all(term.aggregate in self._alone for term in form.terms):
            return True
        return self._splits and has_too_many_cells(self._domain, _coefficient(form))

    def _each_by_itself(self, form: Linear, name: str) -> bool:
        """Whether a function of this name is one of several outputs. A claim is about one."""
        return name != "dp_probability" and len(form.terms) > 1 and self._one_by_one(form)

    def _replace(self, copies: Iterable[exp.Expr], originals: Iterable[exp.Expr]) -> None:
        for copy, original in list(zip(copies, originals, strict=True)):
            copy.replace(self.rewrite(original))

    def _window(self, node: exp.Window) -> exp.Expr:
        """A window over the noisy rows: its function aggregates rows, not records."""
        number = self._sum_of_groups(node)
        if number is not None:
            return self._of_window(node, number, "c")
        copy = node.copy()
        function, original = copy.this, node.this
        if isinstance(function, exp.Filter):
            self._replace([function.expression.this], [original.expression.this])
            function, original = function.this, original.this
        self._replace(function.iter_expressions(), original.iter_expressions())
        return self._framed(copy, node)

    def _framed(self, copy: exp.Window, node: exp.Window) -> exp.Window:
        """The copy of a window, with its partitions and its order over the noisy rows."""
        for name in ("partition_by", "order"):
            parts = node.args.get(name)
            if isinstance(parts, list):
                copy.set(name, [self.rewrite(part) for part in parts])
            elif parts is not None:
                copy.set(name, self.rewrite(parts))
        return copy

    def _sum_of_groups(self, node: exp.Expr) -> int | None:
        """The number of the output that a window over the groups adds up; None for another."""
        if not isinstance(node, exp.Window) or not is_sum_of_groups(node):
            return None
        if self._added_up == "none" or (self._added_up == "asked" and node not in self._asked):
            return None
        form = added_up(node)
        if form is None or (self._splits and has_too_many_cells(self._domain, _coefficient(form))):
            return None
        over = node.copy()
        over.set("this", exp.Count(this=exp.Star()))
        return self._number(form, self._framed(over, node))

    def _of_window(self, node: exp.Window, number: int, kind: str) -> exp.Expr:
        """The sum, or the end of its interval; of an AVG, divided by the number of its rows."""
        found = _noisy(f"__{kind}{number}")
        if isinstance(node.this, exp.Sum):
            return found
        counts = self.windows[number].copy()
        return exp.paren(exp.Div(this=exp.cast(found, "double"), expression=counts))

    def _grouping(self, node: exp.Grouping) -> exp.Expr:
        """A bit for each argument, the lowest for the last: 1 if the row's set lacks it."""
        if len(node.expressions) > MAX_GROUPING:
            raise GroupingError(
                f"GROUPING must have at most {MAX_GROUPING} arguments", position=position(node)
            )
        total: exp.Expr = _zero()
        for argument in (given.unnest() for given in node.expressions):
            if argument not in self._keys:
                raise GroupingError(
                    "arguments to GROUPING must be grouping expressions",
                    position=position(argument) or position(node),
                )
            number = self._keys[argument]
            bit = _noisy(f"__g{number}") if self._several else _zero()
            double = exp.Mul(this=exp.paren(total), expression=exp.Literal.number(2))
            total = exp.Add(this=double, expression=bit)
        return exp.paren(total)

    def _average(self, node: exp.Expr) -> exp.Expr:
        """The `average` of a noisy sum and a noisy count."""
        argument = unfiltered(node).this
        total, count = (
            self._counted(with_filter_of(node, function(this=argument.copy())))
            for function in (exp.Sum, exp.Count)
        )
        return average(total, count)

    def _moment(self, node: exp.Expr) -> exp.Expr:
        """A variance or the like from its sums."""
        return Sums(
            node, self._block, self._centre, lambda one: self._output(_single(one)), self._summed
        ).macro

    def _about(self, node: exp.Anonymous) -> exp.Expr:
        """The column of noisy rows that a function of an answer stands for."""
        name = function_name(node)
        if len(node.expressions) != ABOUT_ANSWERS[name]:
            bounds = ", and two numbers" if name == "dp_probability" else ""
            raise FeatureNotSupported(
                f"{name} takes one aggregate or its alias{bounds}", position=position(node)
            )
        argument = node.expressions[0].unnest()
        if is_statistic(argument) and name != "dp_probability":
            number = self._statistic(argument)
            return _noisy(f"__{_ABOUT[name]}{number}")
        window = self._sum_of_groups(argument)
        if window is not None and isinstance(argument, exp.Window):
            return self._about_window(node, argument, window)
        form = linear(argument)
        own = form is not None and len(form.terms) == 1 and form.terms[0].scale is None
        if form is None or not (own or len(form.terms) > 1) or self._each_by_itself(form, name):
            return self.quotients.about(node, self.rewrite(argument))
        if name == "dp_stddev":
            number = self._number(form)
            self.deviations[number] = None
            return _noisy(f"__s{number}")
        if name == "dp_probability":
            ends = claim_ends(node, form.constants, self._evaluate)
            return self._claimed(Claim(self._number(form), *ends))
        return exp.paren(self._output(form, _ABOUT[name]))

    def _about_window(self, node: exp.Anonymous, window: exp.Window, number: int) -> exp.Expr:
        name = function_name(node)
        if name == "dp_probability":
            if not isinstance(window.this, exp.Sum):
                raise refused(node)
            return self._claimed(Claim(number, *claim_ends(node, (), self._evaluate)))
        if name == "dp_stddev":
            self.deviations[number] = None
        return self._of_window(window, number, _ABOUT[name])

    def _claimed(self, claim: Claim) -> exp.Expr:
        return _noisy(f"__p{self.claims.setdefault(claim, len(self.claims))}")

    def _output(self, form: Linear, kind: str = "c") -> exp.Expr:
        """The value of the form, or the lower or upper end of its interval."""
        result: exp.Expr = _noisy(f"__{kind}{self._number(form)}")
        for negative, value in form.constants:
            combine = exp.Sub if negative else exp.Add
            result = combine(this=result, expression=exp.paren(value.copy()))
        return result

    def _number(self, form: Linear, window: exp.Window | None = None) -> int:
        deadline.check()
        coefficient = _coefficient(form)
        number = self._numbers.setdefault((coefficient, window), len(self._numbers))
        if number == len(self.coefficients):
            if number == MAX_AGGREGATES:
                raise StatementTooComplex(
                    f"a SELECT has more than {MAX_AGGREGATES} different aggregates",
                    hint="Use GROUP BY instead of many conditions, or several statements.",
                )
            self.coefficients.append(coefficient)
            if form.cancels:
                self.cancelled.add(number)
            if window is not None:
                self.windows[number] = window
        return number


def average(total: exp.Expr, count: exp.Expr) -> exp.Expr:
    """total / count; NULL if the count is not positive."""
    ratio = exp.Div(this=exp.cast(total, "double"), expression=count.copy())
    return exp.Case(ifs=[exp.If(this=exp.GT(this=count, expression=_zero()), true=ratio)])


def _single(aggregate: exp.Expr) -> Linear:
    return Linear((Term(False, None, aggregate),), ())


def _coefficient(form: Linear) -> exp.Expr:
    """Σ ± scale · aggregate, where a SUM over no value counts as 0."""
    total: exp.Expr | None = None
    for term in form.terms:
        value = term.aggregate.copy()
        if value.find(exp.Sum):
            value = exp.Coalesce(this=value, expressions=[_zero()])
        if term.scale is not None:
            value = exp.Mul(this=exp.paren(term.scale.copy()), expression=value)
        if total is None:
            total = exp.Neg(this=value) if term.negative else value
        else:
            total = (exp.Sub if term.negative else exp.Add)(this=total, expression=value)
    return total if total is not None else _zero()


def _zero() -> exp.Expr:
    return exp.Literal.number(0)


def _noisy(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True), exp.to_identifier(NOISY, quoted=True))
