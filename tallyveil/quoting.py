"""Quote names and texts for SQL, as both DuckDB and PostgreSQL read them."""

from __future__ import annotations

__all__ = ["identifier", "literal"]


def identifier(name: str) -> str:
    """Return the name in double quotes."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return the text in single quotes."""
    return "'" + text.replace("'", "''") + "'"
