"""Check comparisons of values that are rounded by a public rule: to steps, or to first characters.

The values of a range in steps are the steps, and nothing lies between them.

A comparison with a constant between two steps would not mean what it means on the source's own
values. It is refused, naming the steps next to the constant, unless the attribute ``rounds``: then
the steps are compared with the constant as written. Everything else is evaluated on the steps. A
text that is known by its first characters is not compared with a longer one.
"""

from __future__ import annotations

import datetime as dt
import zoneinfo
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from sqlglot import exp

from tallyveil.errors import BinCut
from tallyveil.policy.domain import Attribute, shown
from tallyveil.quoting import literal
from tallyveil.rewriter.domain.column_uses import (
    Constant,
    compares_with_constant,
    comparisons,
    standing_in,
)
from tallyveil.rewriter.sql.naming import written_name
from tallyveil.rewriter.sql.nodes import call, position

__all__ = ["check_prefix", "check_steps", "neighbours"]

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def check_prefix(column: exp.Expr, attribute: Attribute, constant: Constant) -> None:
    child, parent = standing_in(column)
    pattern = isinstance(parent, exp.Like | exp.ILike | exp.StartsWith) and parent.this is child
    found = [(exp.EQ, parent.expression)] if pattern and parent else comparisons(column)
    for _, other in found or ():
        if compares_with_constant(other):
            text = str(constant(other) or "")
            _check_length(attribute, other, text.replace("%", "") if pattern else text)


def check_steps(column: exp.Expr, attribute: Attribute, constant: Constant, zone: str) -> None:
    for _, other in comparisons(column) or ():
        if compares_with_constant(other):
            _check_step(attribute, other, constant(_asked_of_step(attribute, other)), zone)


def _asked_of_step(attribute: Attribute, other: exp.Expr) -> exp.Expr:
    """The constant as an expression that gives its number, or its microseconds since 1970, or since
    midnight."""
    if isinstance(attribute.step, Decimal):
        return other
    return call("epoch_us", exp.cast(other.copy(), attribute.sql_type))


def _check_step(attribute: Attribute, other: exp.Expr, value: Any, zone: str) -> None:
    """Raise BinCut if the constant ``other``, whose ``value`` is as `_asked_of_step`, lies between
    two steps."""
    found = neighbours(attribute, value, zone)
    decimal_text = isinstance(attribute.step, Decimal) and other.unnest().is_string
    # DuckDB would round the text of a number to the step's digits, and not compare it as it is.
    if found is None or (attribute.rounds and not decimal_text):
        return
    name, (below, above) = written_name(attribute.name), found
    where = f"{name} is counted in steps of {attribute.step_text}"
    if attribute.rounds:
        raise BinCut(
            f"a text that stands for a number between two steps of {name} is not answered",
            detail=f"{where}.",
            hint="Write the number without quotes.",
            position=position(other),
        )
    how = (
        "a number at the nearest one"
        if isinstance(attribute.step, Decimal)
        else ("a time at the one before it")
    )
    cut = BinCut(
        f"the predicate cuts between two steps of {name}",
        detail=f"{where}, {how}.",
        hint=f"The nearest steps are {below} and {above}: compare it with one of them.",
        position=position(other),
    )
    cut.step = attribute.step_text if isinstance(attribute.step, Decimal) else ""
    raise cut


def _check_length(attribute: Attribute, other: exp.Expr, text: str) -> None:
    """Raise BinCut if the constant ``other`` is a text of more characters than are known."""
    prefix, name = attribute.prefix or 0, written_name(attribute.name)
    if len(text) <= prefix or text in attribute.declared:  # the label of other texts
        return
    known = "character is" if prefix == 1 else f"{prefix} characters are"
    raise BinCut(
        f"the predicate asks for more of {name} than is known",
        detail=f"Only the first {known} known of its texts.",
        hint=f"Compare it with a text of at most {prefix}: {literal(text[:prefix])}.",
        position=position(other),
    )


def neighbours(attribute: Attribute, value: Any, zone: str) -> tuple[str, str] | None:
    """The steps below and above a value, as SQL writes them, instants in the zone; None for a step,
    and for a value that is beyond all that is counted at a step."""
    if value is None or attribute.step is None or attribute.ends is None:
        return None
    if isinstance(attribute.step, Decimal):
        return _near_number(attribute.step, attribute.ends, value)
    low, high = (_microseconds(end) for end in attribute.ends)
    value = value if isinstance(value, int) else _microseconds(value)
    step = attribute.step // dt.timedelta(microseconds=1)
    past = (value - low) % step
    if not past or not low - step < value < high + step:
        return None
    if attribute.sql_type == "INTERVAL":
        span = dt.timedelta(microseconds=value - past)
        return f"INTERVAL '{shown(span)}'", f"INTERVAL '{shown(span + attribute.step)}'"
    below, above = (_EPOCH + dt.timedelta(microseconds=value - past + more) for more in (0, step))
    if attribute.sql_type == "TIME":
        return f"'{below.time()}'", f"'{above.time()}'"
    if attribute.sql_type == "TIMESTAMP":
        return f"'{below.replace(tzinfo=None)}'", f"'{above.replace(tzinfo=None)}'"
    own = zoneinfo.ZoneInfo(zone)
    return f"'{below.astimezone(own)}'", f"'{above.astimezone(own)}'"


def _near_number(step: Decimal, ends: tuple[Any, Any], value: Any) -> tuple[str, str] | None:
    try:
        number = Decimal(repr(value) if isinstance(value, float) else value)
    except (InvalidOperation, TypeError, ValueError):
        return None
    if not number.is_finite() or not ends[0] - step < number < ends[1] + step or not number % step:
        return None
    below = number // step * step - (step if number < 0 else 0)
    return shown(below), shown(below + step)


def _microseconds(time: dt.datetime | dt.time | dt.timedelta) -> int:
    if isinstance(time, dt.timedelta):
        return time // dt.timedelta(microseconds=1)
    moment = dt.datetime.combine(_EPOCH, time) if isinstance(time, dt.time) else time
    moment = moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
    return (moment - _EPOCH) // dt.timedelta(microseconds=1)
