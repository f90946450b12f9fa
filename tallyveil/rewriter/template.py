"""Plans with holes: statements that differ only in the constants of their holes share a plan.

The constant of a hole decides which cells of the domain pass, and nothing else of the plan: it is
compared with an attribute, by the attribute's axis, and occurs nowhere else. For other constants
the masks are computed or found, and combined as before. If more could depend on the constants, such
as their meaning in DuckDB or a caution, the statement is planned from its text.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlglot import exp

from tallyveil.cache import OBJECT, Cache
from tallyveil.policy.domain import Domain
from tallyveil.rewriter.domain.component_parts import ComponentPart, ComponentParts, held_bytes
from tallyveil.rewriter.domain.components import Component
from tallyveil.rewriter.domain.evaluate import from_parts
from tallyveil.rewriter.passes import Planning
from tallyveil.rewriter.private.moments import MOMENTS
from tallyveil.rewriter.private.noisy_projection import projection
from tallyveil.rewriter.private.noisy_select import PlannedBlock
from tallyveil.rewriter.private.noisy_tables import Collected, noisy_tables
from tallyveil.rewriter.private.undeclared import cautions, empty_result_caution
from tallyveil.rewriter.query_plan import Caution, Plan
from tallyveil.rewriter.resolve.branches import RECORD
from tallyveil.rewriter.sql.parameters import HOLE, PARAMETERS, parameter_number
from tallyveil.rewriter.sql.query import DAY, INTEGER, TEXT, Shape, column_beside

__all__ = ["Templates"]

# For each type of attribute, the constants that it is compared with directly.
_FITTING: Final = {
    "INTEGER": (INTEGER,),
    "BIGINT": (INTEGER,),
    "DOUBLE": (INTEGER,),
    "VARCHAR": (TEXT, DAY),
    "DATE": (DAY,),
}


class _NotAlike(Exception):
    """With these constants the statement must be planned from its text."""


class Templates:
    """A cache of plans by shape and by ``setting``: what else planning depends on in a session.
    Threads may share it."""

    def __init__(self, parts: ComponentParts) -> None:
        self._parts = parts
        self._open: Cache[tuple[int, ...]] = Cache(1024, 1 << 26, lambda key, _: len(str(key)))
        # A template has about one object for each character of its statement.
        self._kept: Cache[_Template] = Cache(1024, 1 << 27, lambda key, _: OBJECT * len(str(key)))
        self._masks: Cache[ComponentPart] = Cache(4096, 1 << 27, _mask_bytes)

    def find(self, shape: Shape, setting: tuple[Any, ...]) -> Plan | None:
        """Return the statement's plan; None if it must be planned from its text."""
        holes = self._open.find((shape.key, setting))
        if holes is None:
            return None
        template = self._kept.find((shape.key, setting, _fixed(shape, holes)))
        if template is None:
            return None
        try:
            return template.plan(shape.holes, self._parts, self._masks)
        except _NotAlike:
            return None

    def mark(self, tree: exp.Expr, shape: Shape, views: Container[str]) -> bool:
        """Number the holes in a statement's tree, in place. False if it can have no template."""
        if tree.find(*MOMENTS) or any(table.name in views for table in tree.find_all(exp.Table)):
            return False  # these add constants, or constants that depend on the whole statement
        for node in tree.find_all(exp.Literal, *PARAMETERS):
            parameter = isinstance(node, PARAMETERS)
            start = -parameter_number(node) if parameter else node.meta_get("start")
            if start in shape.starts:
                node.meta[HOLE] = shape.starts.index(start)
        return True

    def keep(self, planning: Planning, plan: Plan, shape: Shape, setting: tuple[Any, ...]) -> None:
        """Store the plan of a statement whose tree was marked, if other statements can use it."""
        template = _template(planning, plan, shape)
        if template is None:
            return
        if self._open.get((shape.key, setting), lambda: template.holes) == template.holes:
            self._kept.put((shape.key, setting, _fixed(shape, template.holes)), template)


def _fixed(shape: Shape, holes: Sequence[int]) -> tuple[str | None, ...]:
    return tuple(None if n in holes else text for n, text in enumerate(shape.holes))


@dataclass(frozen=True, eq=False)
class _Mask:
    """A component, and the numbers of its holes."""

    component: Component
    holes: tuple[int, ...]

    def part(self, texts: Sequence[str], parts: ComponentParts) -> ComponentPart:
        """The component's part for these constants, one for each hole of the statement.

        Raises _NotAlike.
        """
        component = self.component
        if self.holes:
            where = component.where
            component = replace(
                component,
                where=None if where is None else _filled(where, texts),
                coefficients={n: _filled(c, texts) for n, c in component.coefficients.items()},
                passing={n: _filled(c, texts) for n, c in component.passing.items()},
            )
            if any(_cautions(component)):
                raise _NotAlike
        found = parts.find(component)
        if found is None:
            raise _NotAlike
        return found


def _mask_bytes(key: Any, part: ComponentPart) -> int:
    return held_bytes(part, *key[0].component.expressions)


@dataclass(frozen=True, eq=False)
class _Template:
    """A plan without its workloads and noisy tables, and what these are computed from. ``tree`` is
    the statement over noisy rows, and ``constants`` are those outside holes.
    """

    bare: Plan
    tree: exp.Expr
    planned: PlannedBlock
    masks: Mapping[int, _Mask]
    holes: tuple[int, ...]
    constants: frozenset[str]

    def plan(self, texts: Sequence[str], parts: ComponentParts, kept: Cache[ComponentPart]) -> Plan:
        """Return the plan for these constants. Raises _NotAlike, and errors of planning."""
        if any(texts[n] in self.constants for n in self.holes):
            raise _NotAlike  # two different expressions may be equal now
        planned, collected = self.planned, Collected()
        block, outputs = planned.block, planned.outputs

        def part(component: Component) -> ComponentPart:
            mask = self.masks[id(component)]
            key = (mask, tuple(texts[n] for n in mask.holes))
            return kept.get(key, lambda: mask.part(texts, parts))

        divided, coefficients = planned.evaluated[0].divided, dict(enumerate(outputs.coefficients))
        evaluated = from_parts(block.domain, divided, coefficients, part)
        if empty_result_caution(
            block.where, False, outputs.coefficients, [evaluated], outputs.cancelled
        ):
            raise _NotAlike
        collected.count(evaluated.height * outputs.width)
        noisy = noisy_tables(block, planned.name, [evaluated], collected, outputs, False)[0]
        workloads, projected = collected.workloads(), projection(self.tree, noisy)
        return replace(self.bare, workloads=workloads, noisy=noisy, projection=projected)


def _template(planning: Planning, plan: Plan, shape: Shape) -> _Template | None:
    if len(planning.planned) != 1 or plan.domain_queries or plan.cautions:
        return None
    planned = planning.planned[0]
    if planned.outputs.statistics or planned.outputs.extremes or planned.outputs.windows:
        return None
    if not planned.block.source.plain or planned.block.groups.several:
        return None
    components = [c for one in planned.evaluated[0].divided for c in one.components]
    outside = {literal.meta[HOLE] for literal in _holes(planning.tree)}
    masks: dict[int, _Mask] = {}
    for component in components:
        inside = [one for part in component.expressions for one in _holes(part)]
        if not all(_fits(literal, shape.kinds, planned.block.domain) for literal in inside):
            return None
        numbers = {literal.meta[HOLE] for literal in inside} - outside
        masks[id(component)] = _Mask(component, tuple(sorted(numbers)))
    holes = sorted({n for mask in masks.values() for n in mask.holes})
    others = frozenset(
        node.name
        for part in (planning.tree, *(e for c in components for e in c.expressions))
        for node in part.find_all(exp.Literal)
        if node.meta_get(HOLE) not in holes
    )
    if not holes or any(shape.holes[n] in others for n in holes):
        return None
    bare = replace(plan, workloads={}, noisy=())
    return _Template(bare, planning.tree, planned, masks, tuple(holes), others)


def _holes(part: exp.Expr) -> Iterator[exp.Literal]:
    return (literal for literal in part.find_all(exp.Literal) if literal.meta_get(HOLE) is not None)


def _fits(hole: exp.Literal, kinds: Sequence[str], domain: Domain) -> bool:
    """Whether an axis compares the constant with cells of single values, of the same type."""
    column = column_beside(hole)
    if column is None or column.table != RECORD:
        return False
    attribute = domain[column.name]
    fitting = _FITTING.get(attribute.sql_type, ())
    rounded = (attribute.edges, attribute.truncates, attribute.step, attribute.prefix)
    whole = all(rule is None for rule in rounded)
    return whole and kinds[hole.meta[HOLE]] in fitting


def _filled(node: exp.Expr, texts: Sequence[str]) -> exp.Expr:
    copy = node.copy()
    for literal in _holes(copy):
        literal.set("this", texts[literal.meta[HOLE]])
    return copy


def _cautions(component: Component) -> Iterator[Caution]:
    """The cautions about its constants, as in any statement."""
    domain = component.domain
    for part in component.expressions:
        for column in part.find_all(exp.Column):
            if column.table == RECORD:
                # What depends on the session's time zone is no hole, and had none before.
                yield from cautions(column, domain[column.name], domain.table, "UTC")
