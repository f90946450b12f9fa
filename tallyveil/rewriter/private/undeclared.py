"""Cautions about constants that match no declared value.

If "Female" is declared, ``sex = 'female'`` counts nothing, exactly and free of charge, which reads
like a fact about the table. The cautions follow from the policy and the statement alone.
"""

from __future__ import annotations

import datetime as dt
import difflib
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Any, Final

from sqlglot import exp

from tallyveil.policy.domain import Attribute, Value
from tallyveil.quoting import literal
from tallyveil.rewriter.domain.column_uses import comparisons, standing_in
from tallyveil.rewriter.domain.components import attributes_of
from tallyveil.rewriter.domain.evaluate import Evaluated
from tallyveil.rewriter.domain.step_checks import neighbours
from tallyveil.rewriter.private.compared_constants import NO_CONSTANT, as_compared, as_instant
from tallyveil.rewriter.query_plan import Caution
from tallyveil.rewriter.sql.naming import written_name
from tallyveil.rewriter.sql.nodes import COMPARISONS, position

__all__ = ["MAX_CAUTIONS", "cautions", "empty_result_caution"]

# With more cells, similar spellings are not looked up, which takes time for every cell.
MAX_SPELLED: Final = 1_000
MAX_NAMED: Final = 3
MAX_CAUTIONS: Final = 20

_NOTHING_MEETS: Final = Caution(
    "no declared value meets the conditions: the answer is 0 or empty for any records",
    hint="SELECT * FROM dp.attributes lists the declared attributes.",
)


def _not_yet(last: dt.date) -> Caution:
    return Caution(_NOTHING_MEETS.message, hint=f"Days after {last} are not counted yet.")


_ORDERS: Final = (exp.LT, exp.LTE, exp.GT, exp.GTE)
_CONNECTING: Final = (exp.Not, exp.Paren, exp.And, exp.Or)


def cautions(
    column: exp.Expr,
    attribute: Attribute,
    table: str,
    zone: str,
    constants: Callable[[exp.Expr], Sequence[exp.Expr]] = lambda node: [node],
) -> Iterator[Caution]:
    """Yield cautions about the predicate around a column; none if a declared value meets it.

    ``zone`` is the session's; ``constants`` gives the constants that an expression stands for, such
    as a column of VALUES.
    """
    child, parent = standing_in(column)
    found = comparisons(column) or []
    if isinstance(parent, exp.Case) and parent.this is child:
        found = [(exp.EQ, branch.this) for branch in parent.args["ifs"]]
    negated = _is_negated(parent)
    alike: list[tuple[exp.Expr, Any]] = []
    for operator, other in found:
        for node in _listed(other, constants):
            value = as_compared(node, attribute, zone)
            if value is NO_CONSTANT:
                continue
            if attribute.rounds:
                yield from _between_steps(node, value, attribute, table, zone)
            if operator in _ORDERS:
                if _meets_nothing(operator, value, attribute):
                    meant = COMPARISONS[operator].opposite if negated else operator
                    sign = COMPARISONS[meant].sign
                    which = "every" if negated else "no"
                    message = f"{which} declared value of {attribute.name} is {sign} "
                    yield _caution(message + _written(value), node, attribute, table)
            elif value not in attribute.declared:
                alike.append((node, value))
    if alike:
        yield _values_caution(alike, attribute, table, (found[0][0] is exp.NEQ) is not negated)


def empty_result_caution(
    where: exp.Expr | None,
    joined: bool,
    coefficients: Sequence[exp.Expr],
    evaluated: Sequence[Evaluated],
    cancelled: Container[int],
    last: dt.date | None = None,
) -> tuple[Caution, ...]:
    """A caution if no cell meets the conditions, or an aggregate counts none.

    ``cancelled`` aggregates, whose terms add up to 0, are exempt, and conditions without an
    attribute, such as a client's WHERE 1 = 0: these are intended. ``last`` is the last day that is
    over, of a table that grows.
    """
    nothing = (_NOTHING_MEETS if last is None else _not_yet(last),)
    conditional = joined or (where is not None and bool(attributes_of(where)))
    for one in evaluated:
        if conditional and not one.height:
            return nothing
        for number, output in enumerate(one.outputs):
            if number in cancelled:
                continue
            empty = any(not len(factor.coefficients) for factor in output.column.factors)
            if empty and (conditional or attributes_of(coefficients[number])):
                return nothing
    return ()


def _is_negated(predicate: exp.Expr | None) -> bool:
    """Whether the condition around the predicate excludes what meets it."""
    node = predicate
    negated = bool(node is not None and node.args.get("negate"))
    while node is not None and isinstance(node.parent, _CONNECTING):
        node = node.parent
        negated ^= isinstance(node, exp.Not)
    return negated


def _listed(
    other: exp.Expr, constants: Callable[[exp.Expr], Sequence[exp.Expr]]
) -> Sequence[exp.Expr]:
    """The elements of ANY (ARRAY[…]), or the constants that ``other`` stands for."""
    inner = other.unnest()
    if not isinstance(inner, exp.Any) or isinstance(inner.this.unnest(), exp.Query):
        return constants(other)
    array = inner.this.unnest()
    array = array.this if isinstance(array, exp.Cast) else array
    return array.expressions if isinstance(array, exp.Array) else []


def _meets_nothing(operator: type[exp.Expr], value: Any, attribute: Attribute) -> bool:
    if attribute.ends is None:
        return False
    lowest, highest, value = map(as_instant, (*attribute.ends, value))
    if operator in (exp.LT, exp.LTE):
        return bool(value <= lowest if operator is exp.LT else value < lowest)
    within = operator is exp.GTE and attribute.edges is None
    return bool(value > highest if within else value >= highest)


def _caution(
    message: str, node: exp.Expr, attribute: Attribute, table: str, alike: Iterable[Value] = ()
) -> Caution:
    hint = _span(attribute, table)
    meant = " or ".join(map(_written, alike))
    if meant:
        hint = f"Did you mean {meant}? {hint}"
    where = position(node) or position(node.parent or node)
    return Caution(message, _outside(attribute), hint, where)


def _between_steps(
    node: exp.Expr, value: Any, attribute: Attribute, table: str, zone: str
) -> Iterator[Caution]:
    found = neighbours(attribute, value, zone)
    if found is not None:
        message = (
            f"{_written(value)} is between two steps of {attribute.name}, {{}} and {{}}: it is"
        )
        message = message.format(*found) + " compared with the steps that records are counted at"
        yield _caution(message, node, attribute, table)


def _values_caution(
    found: Sequence[tuple[exp.Expr, Any]], attribute: Attribute, table: str, unequal: bool
) -> Caution:
    named = ", ".join(_written(value) for _, value in found[:MAX_NAMED])
    if len(found) > MAX_NAMED:
        named += f" and {len(found) - MAX_NAMED} more"
    what = "is not a declared value" if len(found) == 1 else "are not declared values"
    effect = "every declared value differs from it" if unequal else "no record is counted by it"
    effect = effect if len(found) == 1 else effect.replace(" it", " them")
    alike = dict.fromkeys(v for _, value in found[:MAX_NAMED] for v in _nearest(value, attribute))
    message = f"{named} {what} of {attribute.name}: {effect}"
    return _caution(message, found[0][0], attribute, table, alike)


def _nearest(value: Any, attribute: Attribute) -> Sequence[Value]:
    """The declared values that differ in case only, or else are spelled alike or next to it."""
    if isinstance(value, str):
        texts = sorted(v for v in attribute.declared if isinstance(v, str))
        folded = value.strip().casefold()
        same = [text for text in texts if text.strip().casefold() == folded]
        if same or len(texts) > MAX_SPELLED:
            return same[:MAX_NAMED]
        by_fold = {text.casefold(): text for text in texts}
        close = difflib.get_close_matches(folded, by_fold, MAX_NAMED)
        return [by_fold[text] for text in close]
    if attribute.ordered or isinstance(value, bool):
        return []
    ordered: list[Any] = sorted(v for v in attribute.declared if not isinstance(v, str | bool))
    at = as_instant(value)
    below = [v for v in ordered if as_instant(v) < at]
    above = [v for v in ordered if as_instant(v) > at]
    return [*below[-1:], *above[:1]]


def _span(attribute: Attribute, table: str) -> str:
    if not attribute.ordered or attribute.ends is None:
        of = attribute.name.partition(".")[0] if attribute.joined else table
        return (
            f"SELECT DISTINCT {written_name(attribute.name)} FROM {written_name(of)}"
            " lists the declared values."
        )
    low, high = map(_written, attribute.ends)
    below = "below " if attribute.edges is not None else ""
    return f"{attribute.name} is declared from {low} to {below}{high}."


def _outside(attribute: Attribute) -> str:
    """How the table counts records with other values."""
    name = attribute.name
    if attribute.clamp:
        return f"Records beyond an end of {name} are counted at that end."
    if attribute.other_cell is None:
        return f"Records with other values of {name} are left out of the table."
    label = attribute.cells[attribute.other_cell]
    shown = "NULL" if label is None else _written(label)
    return f"Records with other values of {name} are counted as {shown}."


def _written(value: Any) -> str:
    if isinstance(value, str):
        short = value if len(value) <= 60 else value[:57] + "…"
        return literal(short)
    return str(value)
