"""Times that are constants of the statement: now() and similar, times as text, times with a zone.

A timestamp with time zone is the timestamp in the session's time zone here, as PostgreSQL compares
it with dates and timestamps. Both have one type until the result, whose columns get the zone back
(`zone_outputs`). A conversion that depends on the record is refused, as is anything that needs the
zone afterwards.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from sqlglot import exp

from tallyveil.errors import FeatureNotSupported
from tallyveil.rewriter.sql import time_zones as zones
from tallyveil.rewriter.sql.nodes import (
    COMPARISONS,
    function_name,
    is_star,
    leaves,
    position,
    visit,
)
from tallyveil.rewriter.sql.types import TypeOf
from tallyveil.rewriter.sql.vocabulary import NOW

__all__ = ["asks_the_time", "fold_timestamps", "has_zones", "zone_outputs"]

_INSTANTS: Final = frozenset({*NOW, "current_timestamp", "localtimestamp"})
_ZONED: Final = (
    exp.TimestampTrunc, exp.DateTrunc, exp.CurrentTimestamp, exp.StrToTime, exp.UnixToTime,
    exp.AtTimeZone,
)  # fmt: skip
_COMPARING: Final[tuple[type[exp.Expr], ...]] = (
    *COMPARISONS,
    exp.Between,
    exp.In,
    exp.NullSafeEQ,
    exp.NullSafeNEQ,
)
_SUMS: Final = (exp.Add, exp.Sub)


def asks_the_time(tree: exp.Expr) -> Literal["day", "instant"] | None:
    """Whether the statement depends on the "day" or on the "instant" it is asked at."""
    names = {function_name(node) for node in tree.find_all(exp.Func)}
    if names & _INSTANTS:
        return "instant"
    return "day" if "current_date" in names else None


def has_zones(tree: exp.Expr) -> bool:
    """Whether any part of it may be a timestamp with time zone."""
    return any(
        isinstance(node, _ZONED)
        or (isinstance(node, exp.Cast) and node.to.this is exp.DType.TIMESTAMPTZ)
        or (isinstance(node, exp.Anonymous) and node.name.lower() in NOW)
        for node in tree.find_all(exp.Func, exp.AtTimeZone)
    )


def fold_timestamps(
    tree: exp.Expr,
    now: dt.datetime,
    zone: str,
    type_of: TypeOf,
    source_type_of: TypeOf,
    dialect: str,
) -> None:
    """Replace all these times by constants, in place. ``now`` is the local time in ``zone``, the
    session's. ``type_of`` gives an attribute its declared type, ``source_type_of`` the source's.

    Raises FeatureNotSupported, InvalidTextRepresentation, InvalidParameterValue,
    NumericValueOutOfRange.
    """
    _zone_operands(tree, zone, type_of, source_type_of)
    epochs: list[exp.Expr] = []
    zoned = False
    nodes = list(tree.find_all(exp.Func, exp.AtTimeZone, *(() if zones.is_utc(zone) else _SUMS)))
    kinds = {id(n): (type_of(n.this), type_of(n.expression)) for n in nodes if isinstance(n, _SUMS)}
    types = {id(n): type_of(n.this) for n in nodes if isinstance(n, exp.AtTimeZone) or _is_text(n)}

    def settle(node: exp.Expr) -> None:
        nonlocal zoned
        if isinstance(node, _SUMS):
            node.replace(_elapsed(node, kinds[id(node)], dialect))
            return
        settled = _settled(node, now, zone, types)
        if settled is not None:
            zoned = zoned or settled.is_type("timestamp")
            node.replace(settled)
        elif isinstance(node, exp.Extract) and node.name.lower() == "epoch":
            epochs.append(node)

    visit(reversed(nodes), settle)  # inner nodes first
    if epochs and zoned and not zones.is_utc(zone):
        raise FeatureNotSupported(
            "extract(epoch) beside a timestamp with a zone is answered in time zone UTC only",
            hint="SET timezone = 'UTC', or write the seconds as a number.",
            position=position(epochs[0]),
        )


def _zone_operands(tree: exp.Expr, zone: str, type_of: TypeOf, source_type_of: TypeOf) -> None:
    """Cast, in place, operands compared with a timestamp with time zone to one. Otherwise a text's
    own zone would be lost, and a time that clocks skip, such as a midnight, would be too early."""
    skips = not zones.is_utc(zone) and has_zones(tree)
    for node in tree.find_all(*_COMPARING):
        operands = [child for child in node.iter_expressions() if isinstance(child, exp.Expr)]
        texts: list[exp.Expr] = [o for o in operands if isinstance(o, exp.Literal) and o.is_string]
        others = [o for o in operands if o not in texts]
        if (texts or skips) and any(type_of(other) == "TIMESTAMPTZ" for other in others):
            skipped = [
                o for o in others if skips and _may_be_skipped(o, source_type_of(o), type_of(o))
            ]
            for operand in texts + skipped:
                operand.replace(exp.cast(operand.copy(), "timestamptz"))


def _may_be_skipped(node: exp.Expr, kind: str | None, declared: str | None) -> bool:
    """Whether clocks may skip this time. A column of timestamps that is declared as days is left
    alone."""
    days = isinstance(node.unnest(), exp.Column) and declared != "TIMESTAMP"
    return kind == "DATE" or (kind == "TIMESTAMP" and not days)


def _settled(
    node: exp.Expr, now: dt.datetime, zone: str, types: Mapping[int, str | None]
) -> exp.Expr | None:
    match node:
        case exp.StrToDate():
            return _day(zones.read_formatted(node).date())
        case exp.StrToTime():
            return _instant(zones.read_formatted(node))
        case exp.UnixToTime():
            moment = zones.since_epoch(node)
            utc = exp.Literal.string(moment.isoformat(" ") + "+00")
            return exp.cast(exp.cast(utc, "timestamptz"), "timestamp")
        case exp.AtTimeZone():
            return _in_zone(node, zone, types[id(node)])
        case exp.Cast() if node.to.this is exp.DType.TIMESTAMPTZ:
            # A text may have a zone of its own: DuckDB converts it to the session's.
            return exp.cast(exp.Cast(this=node.this.copy(), to=node.to.copy()), "timestamp")
        case exp.Cast() if types.get(id(node)) == "TIMESTAMPTZ":
            return exp.cast(exp.cast(node.this.copy(), "timestamptz"), "text")
    name = function_name(node)
    if name == "current_date":
        return _day(now.date())
    return _instant(now) if name in _INSTANTS else None


def _elapsed(node: exp.Binary, kinds: tuple[str | None, str | None], dialect: str) -> exp.Expr:
    """Compute a sum or difference of instants in elapsed hours: from one noon to the next there are
    23 or 25 if the zone's clocks are put forward or back. Between two instants DuckDB counts local
    days, PostgreSQL hours."""
    if "TIMESTAMPTZ" not in kinds:
        return node
    instants: list[exp.Expr] = [
        exp.cast(one.copy(), "timestamptz") for one in (node.this, node.expression)
    ]
    if "INTERVAL" not in kinds:
        if dialect == "postgres":
            utc = exp.Literal.string("UTC")
            instants = [exp.AtTimeZone(this=one, zone=utc.copy()) for one in instants]
        return type(node)(this=instants[0], expression=instants[1])
    which = kinds.index("TIMESTAMPTZ")
    moved = node.copy()
    moved.set(("this", "expression")[which], instants[which])
    return exp.cast(moved, "timestamp")


def _is_text(node: exp.Expr) -> bool:
    return isinstance(node, exp.Cast) and node.is_type("text", "varchar")


def _day(day: dt.date) -> exp.Expr:
    return exp.cast(exp.Literal.string(day.isoformat()), "date")


def _instant(instant: dt.datetime) -> exp.Expr:
    return exp.cast(exp.Literal.string(instant.isoformat(" ")), "timestamp")


def _in_zone(node: exp.AtTimeZone, session: str, kind: str | None) -> exp.Expr:
    """A timestamp becomes the instant at which clocks in that zone show it, and anything else, an
    instant, the timestamp there. In a session in UTC, UTC only changes the type."""
    zone, operand = node.args["zone"], node.this
    if zone.is_string and zones.is_utc(zone.name) and zones.is_utc(session):
        return exp.cast(exp.cast(operand.copy(), "timestamptz"), "timestamp")
    if isinstance(zone, exp.Interval):
        raise FeatureNotSupported(
            "AT TIME ZONE by an interval is not answered",
            hint="Write a zone's name, or its hours in POSIX's form: 'UTC-5' is five hours east.",
            position=position(zone.this) or position(operand),
        )
    if not zone.is_string or operand.find(exp.Column, exp.AggFunc, exp.Query):
        raise FeatureNotSupported(
            "AT TIME ZONE of a column is answered for 'UTC' only, in a session whose timezone is "
            "UTC",
            hint="Write the time in the session's time zone, or SET timezone.",
            position=position(zone),
        )
    east = zones.offset(zone.name)
    there, ahead = zone.copy(), None
    if east is not None:
        there = exp.Literal.string("UTC")
        ahead = exp.Interval(this=exp.Literal.string(str(east)), unit=exp.var("second"))
    elif (named := zones.by_name(zone.name)) is not None:
        there = exp.Literal.string(named)
    else:
        raise zones.unknown_zone(zone.name, position(zone))
    if kind == "TIMESTAMP":
        clock = operand.copy() if ahead is None else exp.Sub(this=operand.copy(), expression=ahead)
        return exp.cast(exp.AtTimeZone(this=exp.paren(clock), zone=there), "timestamp")
    instant = exp.cast(operand.copy(), "timestamptz")
    shown = exp.AtTimeZone(this=instant, zone=there)
    return shown if ahead is None else exp.paren(exp.Add(this=shown, expression=ahead))


def zone_outputs(tree: exp.Expr, with_zone: Sequence[str]) -> exp.Expr:
    """Return the statement with columns that have a name in ``with_zone`` cast to instants.

    In the hour that a clock shows twice they are the later ones.
    """
    selects = [query for query in leaves(tree) if isinstance(query, exp.Select)]
    if not any(any(map(is_star, select.expressions)) for select in selects):
        for select in selects:
            for item, name in zip(select.expressions, with_zone, strict=False):
                if name:
                    item.set("this", exp.cast(item.this, "timestamptz"))
        return tree
    names = [name for name in with_zone if name]
    if len(set(names)) < len(names):
        return tree
    casts = [
        exp.alias_(exp.cast(exp.column(n, quoted=True), "timestamptz"), n, quoted=True)
        for n in names
    ]
    inner = exp.Subquery(this=tree, alias=exp.TableAlias(this=exp.to_identifier("result")))
    return exp.Select(expressions=[exp.Star(replace=casts)]).from_(inner)
