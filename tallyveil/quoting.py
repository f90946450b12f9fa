"""Quote names and texts for SQL, as both DuckDB and PostgreSQL read them, and read PostgreSQL's
texts of arrays.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["array_elements", "identifier", "literal"]

# Possessive quantifiers (*+, ++) throughout: a long invalid literal must fail in one pass.
_ELEMENT: Final = re.compile(
    r"""\s*+(?:"(?P<quoted>(?:[^"\\]|\\.)*+)"|(?P<bare>(?:[^\s",{}\\]|\\.|\s++(?=[^\s,}]))++))"""
    r"\s*+(?P<end>[,}])",
    re.DOTALL,
)


def identifier(name: str) -> str:
    """Return the name in double quotes."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return the text in single quotes."""
    return "'" + text.replace("'", "''") + "'"


def array_elements(text: str) -> list[str | None]:
    """Return the texts of the elements of a one-dimensional array, such as ``{1,"a b",NULL}``; None
    for NULL. Raises ValueError for any other text."""
    text = text.strip()
    if not text.startswith("{"):
        raise ValueError("an array begins with {")
    if re.fullmatch(r"\{\s*\}", text):
        return []
    found: list[str | None] = []
    at, end = 1, ","
    while end == ",":
        match = _ELEMENT.match(text, at)
        if match is None:
            raise ValueError("not an element of an array")
        bare: str | None = match["bare"]
        null = bare is not None and bare.lower() == "null"
        written = match["quoted"] if bare is None else bare
        found.append(None if null else re.sub(r"\\(.)", r"\1", written, flags=re.DOTALL))
        at, end = match.end(), match["end"]
    if at != len(text):
        raise ValueError("text follows an array")
    return found
