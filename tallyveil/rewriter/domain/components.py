"""The independent parts of a block, each over its own attributes.

A record counts in a group if it passes every conjunct of WHERE and has the group's keys, and it
counts with the aggregate's coefficient. Each conjunct, key and coefficient connects the attributes
that it mentions. Over the connected components of attributes, the block is a product: a record
passes if it passes in each component, the groups are all combinations of the components' groups,
and an aggregate's coefficient is its value in one component, times 1 or 0 in the others. So each
component is evaluated on its own small domain.

A joined public table belongs to the component of the attributes that its ON mentions, like an
attribute. A record has all combinations of its rows in each component, so that the coefficient is
the value in one component times the numbers of rows in the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from sqlglot import exp

from tallyveil import deadline
from tallyveil.policy.domain import Attribute, Domain
from tallyveil.rewriter.domain.star_joins import joined_parts
from tallyveil.rewriter.resolve.branches import RECORD, Branch, DomainSource, names_of
from tallyveil.rewriter.sql.nodes import conjuncts

__all__ = ["SMALL", "Component", "LinearQuery", "attributes_of", "components"]

# Up to this number of cells, one query over all is faster than one for each component.
SMALL: Final = 20_000

_ZERO: Final = exp.Literal.number(0)
_DOUBLE: Final = exp.DataType.build("double")


@dataclass(frozen=True)
class LinearQuery:
    """What a block needs from the domain: ``keys`` of groups, and ``coefficients`` by number."""

    domain: Domain
    source: DomainSource
    where: exp.Expr | None
    keys: Sequence[exp.Expr]
    coefficients: Mapping[int, exp.Expr]


@dataclass
class Component:
    """The part of a block over some attributes; ``grouped`` if the block has keys anywhere.

    ``keys`` and outputs have their numbers in the block. The value of an output is among the
    ``coefficients`` of one component. In the others it is 1 for a record that passes WHERE, or, if
    the output's FILTER mentions their attributes, 1 or 0 by ``passing``; a component with joins has
    the number of such rows there. ``source`` has its joins. ``kept`` is the whole block's FROM and
    WHERE if its groups include those of public rows without a record.
    """

    domain: Domain
    attributes: frozenset[str]
    where: exp.Expr | None = None
    keys: dict[int, exp.Expr] = field(default_factory=dict)
    coefficients: dict[int, exp.Expr] = field(default_factory=dict)
    passing: dict[int, exp.Expr] = field(default_factory=dict)
    grouped: bool = False
    source: DomainSource = field(default_factory=lambda: DomainSource([Branch()]))
    kept: tuple[DomainSource, exp.Expr | None] | None = None

    @property
    def axes(self) -> Sequence[Attribute]:
        return self.domain.project(self.attributes)

    @property
    def cells(self) -> int:
        """The number of cells that the attributes have together."""
        return math.prod(axis.size for axis in self.axes)

    @property
    def outputs(self) -> dict[int, exp.Expr]:
        return self.coefficients | self.passing

    @property
    def columns(self) -> dict[int, int]:
        """For each output, its place among the distinct expressions of outputs."""
        places: dict[exp.Expr, int] = {}
        return {number: places.setdefault(o, len(places)) for number, o in self.outputs.items()}

    @property
    def expressions(self) -> list[exp.Expr]:
        """The expressions other than keys."""
        return [*([self.where] if self.where is not None else []), *self.outputs.values()]


@dataclass(frozen=True)
class _Counted:
    """A coefficient: the value of a record that passes all of the FILTER's conjuncts."""

    value: exp.Expr
    conjuncts: tuple[exp.Expr, ...]


def components(
    asked: LinearQuery, free: Callable[[Component], bool] = lambda component: False
) -> tuple[Component, ...]:
    """Return at least one component, in the domain's order of their first attributes.

    A component without joins that is not ``free`` takes a query: these are merged if they have few
    cells together, and no more than one has keys. Expressions without an attribute go to the first.
    A union is one component.
    """
    if len(asked.source.branches) > 1:
        return (_joint(asked),)
    joins, conditions = joined_parts(asked.source)
    where = asked.where
    passed = [*(conjuncts(where) if where is not None else []), *conditions]
    counted = {number: _counted(each) for number, each in asked.coefficients.items()}
    atoms = [*passed, *asked.keys, *joins]
    for output in counted.values():
        atoms += [output.value, *output.conjuncts]
    ties = [asked.source.kept, *map(names_of, atoms)]
    found = _assigned(asked, ties, joins, passed, counted)
    queried = [c for c in found if c.source.plain and not free(c)]
    if sum(bool(c.keys) for c in queried) > 1:
        # Groups by several keys stay a product: a strategy may then buy contrasts between them.
        queried = [c for c in queried if not c.keys]
    together = frozenset[str]().union(*(c.attributes for c in queried))
    if len(queried) < 2 or Component(asked.domain, together).cells > SMALL:
        return found
    return _assigned(asked, [*ties, together], joins, passed, counted)


def _assigned(
    asked: LinearQuery,
    ties: Iterable[frozenset[str]],
    joins: Sequence[exp.Join],
    passed: Sequence[exp.Expr],
    counted: Mapping[int, _Counted],
) -> tuple[Component, ...]:
    """Make a component for each connected set of names, with the expressions over it."""
    domain, connected = asked.domain, _connected(asked.domain, ties)
    grouped = bool(asked.keys) and not asked.source.kept  # public rows are groups by themselves
    found = []
    for names in connected:
        own = [join for join in joins if join.this.alias in names]
        component = Component(domain, names.intersection(domain.names), grouped=grouped)
        component.source = DomainSource([Branch(own)])
        if asked.source.kept & names:
            component.kept = asked.source, asked.where
        found.append(component)

    def home(node: exp.Expr) -> Component:
        mentioned = names_of(node)
        place = next((n for n, own in enumerate(connected) if mentioned <= own), 0)
        return found[place]

    for conjunct in passed:
        component = home(conjunct)
        component.where = _and(component.where, conjunct)
    for number, key in enumerate(asked.keys):
        home(key).keys[number] = key
    for number, output in counted.items():
        passing: dict[int, exp.Expr] = {}
        for conjunct in output.conjuncts:
            place = found.index(home(conjunct))
            passing[place] = _and(passing.get(place), conjunct)
        valued = found.index(home(output.value))
        for place, component in enumerate(found):
            if place == valued:
                component.coefficients[number] = _filtered(output.value, passing.get(place))
            elif place in passing or not component.source.plain:
                one = exp.Count(this=exp.Star())
                component.passing[number] = _filtered(one, passing.get(place))
    return tuple(found)


def _joint(asked: LinearQuery) -> Component:
    keys, coefficients = dict(enumerate(asked.keys)), dict(asked.coefficients)
    whole = Component(
        asked.domain, frozenset(), asked.where, keys, coefficients, grouped=bool(keys)
    )
    whole.source = asked.source
    parts = [*asked.source.nodes, *asked.keys, *whole.expressions]
    return replace(whole, attributes=frozenset[str]().union(*map(attributes_of, parts)))


def attributes_of(node: exp.Expr) -> frozenset[str]:
    """The record's attributes that an expression mentions."""
    deadline.check()
    return frozenset(c.name for c in node.find_all(exp.Column) if c.table == RECORD)


def _connected(domain: Domain, ties: Iterable[frozenset[str]]) -> list[frozenset[str]]:
    """The connected components of the names in ``ties``; those without an attribute go to the
    first. One empty set if there are no names.
    """
    groups: list[frozenset[str]] = []
    for tie in ties:
        touching = [group for group in groups if group & tie]
        if tie:
            rest = [group for group in groups if not group & tie]
            groups = [*rest, tie.union(*touching)]
    order = {name: n for n, name in enumerate(domain.names)}
    of_records = [group for group in groups if not group.isdisjoint(order)]
    first, *rest = sorted(
        of_records, key=lambda g: min(order[name] for name in g if name in order)
    ) or [frozenset[str]()]
    return [first.union(*(group for group in groups if group.isdisjoint(order))), *rest]


def _and(first: exp.Expr | None, second: exp.Expr) -> exp.Expr:
    if first is None:
        return second if second.parent is None else second.copy()
    return exp.And(this=first, expression=exp.paren(second.copy()))


def _counted(coefficient: exp.Expr) -> _Counted:
    """Separate the value and the FILTER of a single aggregate; anything else is all value."""
    inner = coefficient.this if isinstance(coefficient, exp.Coalesce) else coefficient
    if isinstance(inner, exp.Filter):
        aggregate, condition = inner.this.copy(), inner.expression.this
    else:
        aggregate, condition = _chosen(inner)
    if condition is None:
        return _Counted(coefficient, ())
    if inner is not coefficient:
        rest = [value.copy() for value in coefficient.expressions]
        aggregate = exp.Coalesce(this=aggregate, expressions=rest)
    return _Counted(aggregate, tuple(conjuncts(condition)))


def _chosen(aggregate: exp.Expr) -> tuple[exp.Expr, exp.Expr | None]:
    """Return SUM(x) and c for SUM(CASE WHEN c THEN x ELSE 0 END), and similar for COUNT; the
    aggregate unchanged and None if it has another form.
    """
    case = aggregate.this.unnest() if type(aggregate) in (exp.Sum, exp.Count) else None
    if not isinstance(case, exp.Case) or case.this is not None or len(case.args["ifs"]) > 1:
        return aggregate, None
    (branch,) = case.args["ifs"]
    value, otherwise = branch.args["true"], case.args.get("default")
    if type(otherwise) is exp.Cast and otherwise.to == _DOUBLE:
        value, otherwise = exp.cast(value, exp.DType.DOUBLE), otherwise.this
    none = otherwise is None or isinstance(otherwise.unnest(), exp.Null)
    if value.is_string or not (none or (isinstance(aggregate, exp.Sum) and otherwise == _ZERO)):
        return aggregate, None
    return type(aggregate)(this=value.copy()), branch.this


def _filtered(value: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
    """The aggregate with a FILTER. A COALESCE around it, which makes a SUM 0, stays outside."""
    if condition is None:
        return value
    bare = value.this if isinstance(value, exp.Coalesce) else value
    result = exp.Filter(this=bare.copy(), expression=exp.Where(this=condition))
    if bare is value:
        return result
    rest = [other.copy() for other in value.expressions]
    return exp.Coalesce(this=result, expressions=rest)
