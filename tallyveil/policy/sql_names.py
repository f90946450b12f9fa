"""Names of tables and attributes, and which of them SQL can write without quotes."""

from __future__ import annotations

import re

from tallyveil.quoting import identifier

__all__ = ["is_table_reference", "name_mistake", "quoted_reference", "select_of"]

# PostgreSQL's reserved words: an unquoted one cannot stand for a table or a column.
_RESERVED_WORDS = (
    "all analyse analyze and any array as asc asymmetric authorization binary both case cast "
    "check collate collation column concurrently constraint create cross current_catalog "
    "current_date current_role current_schema current_time current_timestamp current_user "
    "default deferrable desc distinct do else end except false fetch for foreign freeze from "
    "full grant group having ilike in initially inner intersect into is isnull join lateral "
    "leading left like limit localtime localtimestamp natural not notnull null offset on only "
    "or order outer overlaps placing primary references returning right select session_user "
    "similar some symmetric system_user table tablesample then to trailing true union unique "
    "user using variadic verbose when where window with "
)
_RESERVED = frozenset(_RESERVED_WORDS.split())
_IDENTIFIER = re.compile(r"[a-z_][a-z0-9_]*")
_PART = r'(?:[^\W\d]\w*|"(?:[^"]|"")+")'
_REFERENCE = re.compile(rf"{_PART}(?:\.{_PART}){{0,2}}")
_SELECT = re.compile(r"(select|with|from)\b", re.IGNORECASE)
_LONGEST = 63


def name_mistake(name: str, *, cased: bool = False) -> str | None:
    """Return what is wrong with a table's or attribute's name, or None.

    PostgreSQL folds unquoted names to lower case and cuts them at 63 bytes; the result must still
    be the declared name. ``cased`` allows capitals, which then need double quotes.
    """
    if not _IDENTIFIER.fullmatch(name.lower() if cased and name.isascii() else name):
        letters = "letters" if cased else "lower-case letters"
        return f"expected a name of {letters}, digits and _, not starting with a digit"
    if len(name) > _LONGEST:
        return f"expected a name of at most {_LONGEST} characters"
    if name.startswith("__"):
        return "expected a name that does not start with __"
    if name.lower() in _RESERVED:
        return "expected a name that is not a reserved word of SQL"
    return None


def is_table_reference(text: str) -> bool:
    """Whether ``text`` names a table: one to three parts, quoted where necessary."""
    return _REFERENCE.fullmatch(text) is not None


def quoted_reference(text: str) -> str:
    """The table reference with each part quoted, since DuckDB reserves more words than
    PostgreSQL: show, describe, pivot."""
    return ".".join(
        part if part.startswith('"') else identifier(part) for part in re.findall(_PART, text)
    )


def select_of(text: str) -> str:
    """The text if it is a SELECT; for a table's name the SELECT of all its rows."""
    return text if _SELECT.match(text) else f"SELECT * FROM {quoted_reference(text)}"
