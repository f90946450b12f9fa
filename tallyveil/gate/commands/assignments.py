"""SET, RESET and SHOW, in PostgreSQL's grammar."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from typing import Final

from tallyveil.errors import (
    FeatureNotSupported,
    InsufficientPrivilege,
    InvalidParameterValue,
    StatementError,
    UndefinedObject,
)
from tallyveil.gate.commands.reader import TokenReader
from tallyveil.gate.commands.transactions import parse_modes
from tallyveil.gate.interface import Change, ColumnType, Notice, Statement
from tallyveil.gate.settings import DESCRIPTIONS, LISTS, REPORTED, Settings
from tallyveil.interval import quantities_of
from tallyveil.quoting import identifier

__all__ = [
    "apply",
    "parse_discard",
    "parse_reset",
    "parse_set",
    "parse_show",
    "shown_columns",
    "shown_rows",
]

_PLAIN: Final = re.compile(r"[a-z_][a-z0-9_$]*")


def _no_block(what: str) -> tuple[Notice, ...]:
    message = f"{what} can only be used in transaction blocks"
    return (Notice(message, sqlstate="25P01", severity="WARNING"),)


def apply(change: Change, settings: Settings) -> tuple[Notice, ...]:
    """Raises UndefinedSetting or InvalidParameterValue; then nothing has changed."""
    if change.everything:
        settings.reset_all()
    before = settings.snapshot()
    try:
        for name, value in change.values.items():
            settings.set(name, value, local=change.local)
    except StatementError:
        settings.restore(before)
        raise
    if change.block is not None and not settings.set_block(change.block):
        return _no_block("SET TRANSACTION")
    if change.local and not settings.in_block:
        settings.restore(before)
        return _no_block("SET LOCAL")
    return ()


def shown_columns(statement: Statement) -> tuple[ColumnType, ...]:
    """The columns of SHOW: settings are spelled as in PostgreSQL."""
    name = str(statement.target)
    spelled = (one for one in REPORTED if one.lower() == name)
    names = ("name", "setting", "description") if name == "all" else (next(spelled, name),)
    return tuple(ColumnType(one, "VARCHAR") for one in names)


def shown_rows(statement: Statement, settings: Settings) -> list[tuple[str, ...]]:
    """The rows of SHOW. Raises UndefinedSetting."""
    if statement.target != "all":
        return [(settings.show(str(statement.target)),)]
    return [(name, value, DESCRIPTIONS.get(name, "")) for name, value in settings.all().items()]


def _changing(reader: TokenReader, tag: str, change: Change) -> Statement:
    return replace(reader.statement("set", tag), change=change)


def parse_set(reader: TokenReader) -> Statement:
    """``SET [SESSION | LOCAL] name {= | TO} {value [, …] | DEFAULT}``, and the standard's forms."""
    reader.usage = "SET name = value"
    return _changing(reader, "SET", _set(reader))


def _set(reader: TokenReader) -> Change:
    if reader.take("CONSTRAINTS"):
        return _constraints(reader)
    if reader.take("LOCAL"):
        return replace(_setting(reader), local=True)
    if reader.take("SESSION", "CHARACTERISTICS"):
        reader.usage = "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"
        reader.expect("AS", "TRANSACTION")
        return Change({f"default_{name}": value for name, value in parse_modes(reader).items()})
    if _keeps_the_user(reader):
        return Change({})
    reader.take("SESSION")
    return _setting(reader)


def _setting(reader: TokenReader) -> Change:
    if _keeps_the_user(reader):
        return Change({})
    if reader.take("TRANSACTION"):
        _refuse_snapshot(reader)
        return Change({}, block=parse_modes(reader))
    if reader.take("TIME", "ZONE"):
        return Change({"timezone": _zone(reader)})
    if reader.take("NAMES"):
        return Change({"client_encoding": _encoding(reader)})
    return _assignment(reader)


def _refuse_snapshot(reader: TokenReader) -> None:
    if reader.word() == "SNAPSHOT":
        raise FeatureNotSupported(
            "snapshots of other transactions are not answered", position=reader.position()
        )


def _keeps_the_user(reader: TokenReader) -> bool:
    """Whether it sets the user to the one who connected, as pools do between two clients. Raises
    InsufficientPrivilege for any other."""
    position = reader.position()
    role = reader.take("ROLE")
    if not role and not reader.take("SESSION", "AUTHORIZATION"):
        return False
    if reader.take("NONE" if role else "DEFAULT"):
        return True
    raise InsufficientPrivilege(
        "the user of a connection cannot be changed",
        hint="Connect as the other user.",
        position=position,
    )


def _constraints(reader: TokenReader) -> Change:
    reader.usage = "SET CONSTRAINTS ALL DEFERRED"
    position = reader.position()
    if not reader.take("ALL"):
        name = reader.dotted_name()
        raise UndefinedObject(f'constraint "{name}" does not exist', position=position)
    reader.one_of("DEFERRED", "IMMEDIATE")
    return Change({})


def _assignment(reader: TokenReader) -> Change:
    name = reader.dotted_name()
    if not reader.take("="):
        reader.expect("TO")
    if reader.take("DEFAULT"):
        return Change({name: None})
    values = reader.listed(lambda: _value(reader, name))
    if len(values) > 1 and name not in LISTS and reader.ended():
        raise InvalidParameterValue(
            f"SET {name} takes only one argument", hint="Put a value with commas in '…'."
        )
    return Change({name: ", ".join(values)})


def _value(reader: TokenReader, name: str) -> str:
    """A string, a number or a word. The names in a search_path are quoted if they need it."""
    number = reader.number()
    if number is not None:
        return number
    text = reader.escaped_string()
    if text is None:
        text = reader.name()
    quoted = name == "search_path" and not _PLAIN.fullmatch(text)
    return identifier(text) if quoted else text


def _zone(reader: TokenReader) -> str | None:
    reader.usage = "SET TIME ZONE 'Europe/Paris'"
    if reader.take("DEFAULT") or reader.take("LOCAL"):
        return None
    if reader.take("INTERVAL"):
        return _hours(reader)
    return _value(reader, "timezone")


# The units of an interval that gives a time zone, in hours.
_CLOCK: Final = {"hour": Fraction(1), "minute": Fraction(1, 60), "second": Fraction(1, 3600)}


def _hours(reader: TokenReader) -> str:
    """The hours east of Greenwich in ``'+02:00' HOUR TO MINUTE``, or the text of the interval if
    these are not whole."""
    reader.usage = "SET TIME ZONE INTERVAL '+02:00' HOUR TO MINUTE"
    text = reader.string()
    if text is None:
        raise reader.error()
    unit = "second"
    if reader.take("HOUR"):
        unit = "hour"
        if reader.take("TO"):
            reader.expect("MINUTE")
            unit = "minute"
    bare = re.fullmatch(r"\s*[+-]?\d{1,9}\s*", text, re.ASCII)
    try:
        quantities = quantities_of(f"{text} {unit}" if bare else text)
        hours = sum(Fraction(amount) * _CLOCK[unit] for amount, unit in quantities)
    except (ValueError, KeyError):
        return text
    return str(hours) if hours.denominator == 1 else text


def _encoding(reader: TokenReader) -> str | None:
    reader.usage = "SET NAMES 'UTF8'"
    if reader.ended() or reader.take("DEFAULT"):
        return None
    text = reader.escaped_string()
    if text is None:
        raise reader.error()
    return text


def parse_reset(reader: TokenReader) -> Statement:
    reader.usage = "RESET name or RESET ALL"
    if reader.take("ALL"):
        change = Change({}, everything=True)
    elif reader.take("SESSION", "AUTHORIZATION") or reader.take("ROLE"):
        change = Change({})  # it is always the user who connected
    else:
        change = Change({_special(reader) or reader.dotted_name(): None})
    return _changing(reader, "RESET", change)


def parse_show(reader: TokenReader) -> Statement:
    """``target`` is the setting's name, or "all"."""
    reader.usage = "SHOW name or SHOW ALL"
    if reader.take("SESSION", "AUTHORIZATION"):
        return reader.statement("show", "SHOW", "session_authorization")
    return reader.statement("show", "SHOW", _special(reader) or reader.dotted_name())


def _special(reader: TokenReader) -> str | None:
    """The settings that the standard writes in several words."""
    if reader.take("TIME", "ZONE"):
        return "timezone"
    return "transaction_isolation" if reader.take("TRANSACTION", "ISOLATION", "LEVEL") else None


def parse_discard(reader: TokenReader) -> Statement:
    reader.usage = "DISCARD ALL"
    what = reader.one_of("ALL", "PLANS", "SEQUENCES", "TEMP", "TEMPORARY")
    tag = "DISCARD TEMP" if what == "TEMPORARY" else f"DISCARD {what}"
    return _changing(reader, tag, Change({}, everything=what == "ALL"))
