"""Times that are constants of the statement: now() and similar, times as text, and names of zones.

A timestamp with time zone is an instant, DuckDB's own. The session's time zone decides how it is
read, compared with a date or a timestamp, and taken apart; the cursor evaluates in that zone.
"""

from __future__ import annotations

import datetime as dt
from typing import Final, Literal

from sqlglot import exp

from tallyveil.errors import FeatureNotSupported
from tallyveil.rewriter.sql import time_zones as zones
from tallyveil.rewriter.sql.nodes import all_nodes, function_name, position, visit
from tallyveil.rewriter.sql.types import TypeOf
from tallyveil.rewriter.sql.vocabulary import NOW

__all__ = ["asks_the_time", "fold_timestamps"]

_NOW: Final = frozenset({*NOW, "current_timestamp"})
_LOCAL: Final = "localtimestamp"


def asks_the_time(tree: exp.Expr) -> Literal["day", "instant"] | None:
    """Whether the statement depends on the "day" or on the "instant" it is asked at."""
    names = {function_name(node) for node in tree.find_all(exp.Func)}
    if names & {*_NOW, _LOCAL}:
        return "instant"
    return "day" if "current_date" in names else None


def fold_timestamps(tree: exp.Expr, now: dt.datetime, type_of: TypeOf, dialect: str) -> None:
    """Replace all these times by constants, and names of zones by DuckDB's, in place. ``now`` is in
    the session's time zone.

    Raises FeatureNotSupported, InvalidTextRepresentation, InvalidParameterValue,
    NumericValueOutOfRange.
    """
    nodes = all_nodes(tree, exp.Func, exp.AtTimeZone)
    kinds = {id(node): type_of(node.this) for node in nodes if isinstance(node, exp.AtTimeZone)}

    def settle(node: exp.Expr) -> None:
        if isinstance(node, exp.AtTimeZone):
            node.replace(_in_zone(node, kinds[id(node)], dialect))
        elif (settled := _settled(node, now)) is not None:
            node.replace(settled)

    visit(reversed(nodes), settle)  # inner nodes first


def _settled(node: exp.Expr, now: dt.datetime) -> exp.Expr | None:
    match node:
        case exp.StrToDate():
            return _constant(zones.read_formatted(node).date(), "date")
        case exp.StrToTime():
            return _constant(zones.read_formatted(node), "timestamptz")
        case exp.UnixToTime():
            return _constant(zones.since_epoch(node), "timestamptz")
    name = function_name(node)
    if name == "current_date":
        return _constant(now.date(), "date")
    if name == _LOCAL:
        return _constant(now.replace(tzinfo=None), "timestamp")
    return _constant(now, "timestamptz") if name in _NOW else None


def _constant(time: dt.date, kind: str) -> exp.Expr:
    return exp.cast(exp.Literal.string(str(time)), kind)


def _in_zone(node: exp.AtTimeZone, kind: str | None, dialect: str) -> exp.Expr:
    """A timestamp becomes the instant at which clocks in that zone show it, and an instant the
    timestamp there. A text is an instant, and a day too, but in DuckDB's SQL its midnight."""
    zone, operand = node.args["zone"], node.this
    if not zone.is_string:
        raise FeatureNotSupported(
            "AT TIME ZONE is answered with a zone's name only, as a constant",
            hint="Write a zone's name, or its hours in POSIX's form: 'UTC-5' is five hours east.",
            position=position(zone) or position(operand),
        )
    if kind not in ("TIMESTAMP", "TIMESTAMPTZ", None):
        kind = "TIMESTAMP" if kind == "DATE" and dialect == "duckdb" else "TIMESTAMPTZ"
        operand = exp.cast(operand, kind)
    east = zones.offset(zone.name)
    if east is None:
        named = zones.by_name(zone.name)
        if named is None:
            raise zones.unknown_zone(zone.name, position(zone))
        return exp.AtTimeZone(this=operand, zone=exp.Literal.string(named))
    there = exp.Literal.string("UTC")
    ahead = exp.Interval(this=exp.Literal.string(str(east)), unit=exp.var("second"))
    if kind == "TIMESTAMP":
        clock = exp.paren(exp.Sub(this=exp.paren(operand), expression=ahead))
        return exp.AtTimeZone(this=clock, zone=there)
    if kind == "TIMESTAMPTZ":
        shown = exp.AtTimeZone(this=exp.paren(operand), zone=there)
        return exp.paren(exp.Add(this=shown, expression=ahead))
    raise FeatureNotSupported(
        "AT TIME ZONE by an offset is answered of a timestamp whose type is known only",
        hint="Cast it to timestamp or to timestamptz first.",
        position=position(zone),
    )
