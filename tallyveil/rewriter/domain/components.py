"""The independent parts of a block, each over its own attributes.

A record counts in a group if it passes every conjunct of WHERE and has the group's keys, and it
counts with the aggregate's coefficient. Each conjunct, key and coefficient connects the attributes
that it mentions. Over the connected components of attributes, the block is a product: a record
passes if it passes in each component, the groups are all combinations of the components' groups,
and an aggregate's coefficient is its value in one component, times 1 or 0 in the others. So each
component is evaluated on its own small domain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from sqlglot import exp

from tallyveil import deadline
from tallyveil.policy.domain import Attribute, Domain
from tallyveil.rewriter.resolve.branches import RECORD, DomainSource

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
    the output's FILTER mentions their attributes, 1 or 0 by ``passing``.
    """

    domain: Domain
    attributes: frozenset[str]
    where: exp.Expr | None = None
    keys: dict[int, exp.Expr] = field(default_factory=dict)
    coefficients: dict[int, exp.Expr] = field(default_factory=dict)
    passing: dict[int, exp.Expr] = field(default_factory=dict)
    grouped: bool = False

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

    A component that is not ``free`` takes a query: these are merged if they have few cells
    together. Expressions without an attribute go to the first. Joins and unions make one component.
    """
    if not asked.source.plain:
        return (_joint(asked),)
    conjuncts = _conjuncts(asked.where)
    counted = {number: _counted(each) for number, each in asked.coefficients.items()}
    atoms = [*conjuncts, *asked.keys]
    for output in counted.values():
        atoms += [output.value, *output.conjuncts]
    ties = [attributes_of(atom) for atom in atoms]
    found = _assigned(asked, ties, conjuncts, counted)
    queried = [component.attributes for component in found if not free(component)]
    together = frozenset[str]().union(*queried)
    if len(queried) < 2 or Component(asked.domain, together).cells > SMALL:
        return found
    return _assigned(asked, [*ties, together], conjuncts, counted)


def _assigned(
    asked: LinearQuery,
    ties: Iterable[frozenset[str]],
    conjuncts: Sequence[exp.Expr],
    counted: Mapping[int, _Counted],
) -> tuple[Component, ...]:
    """Make a component for each connected set of attributes, with the expressions over it."""
    domain, grouped = asked.domain, bool(asked.keys)
    found = [Component(domain, names, grouped=grouped) for names in _connected(domain, ties)]

    def home(node: exp.Expr) -> Component:
        mentioned = attributes_of(node)
        return next((c for c in found if mentioned <= c.attributes), found[0])

    for conjunct in conjuncts:
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
            elif place in passing:
                one = exp.Count(this=exp.Star())
                component.passing[number] = _filtered(one, passing[place])
    return tuple(found)


def _joint(asked: LinearQuery) -> Component:
    keys, coefficients = dict(enumerate(asked.keys)), dict(asked.coefficients)
    whole = Component(
        asked.domain, frozenset(), asked.where, keys, coefficients, grouped=bool(keys)
    )
    parts = [*asked.source.nodes, *asked.keys, *whole.expressions]
    return replace(whole, attributes=frozenset[str]().union(*map(attributes_of, parts)))


def attributes_of(node: exp.Expr) -> frozenset[str]:
    """The record's attributes that an expression mentions."""
    deadline.check()
    return frozenset(c.name for c in node.find_all(exp.Column) if c.table == RECORD)


def _connected(domain: Domain, ties: Iterable[frozenset[str]]) -> list[frozenset[str]]:
    """The connected components of the attributes in ``ties``; one empty set without any."""
    groups: list[frozenset[str]] = []
    for tie in ties:
        touching = [group for group in groups if group & tie]
        if tie:
            rest = [group for group in groups if not group & tie]
            groups = [*rest, tie.union(*touching)]
    order = {name: n for n, name in enumerate(domain.names)}
    return sorted(groups, key=lambda g: min(order[name] for name in g)) or [frozenset()]


def _conjuncts(where: exp.Expr | None) -> list[exp.Expr]:
    """The conditions that must all be true for a record to pass; NULL does not pass."""
    if where is None:
        return []
    inner = where.unnest()
    if isinstance(inner, exp.And):
        return [*_conjuncts(inner.this), *_conjuncts(inner.expression)]
    return [where]


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
    return _Counted(aggregate, tuple(_conjuncts(condition)))


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
