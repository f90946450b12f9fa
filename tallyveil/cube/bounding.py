"""Which rows of a privacy unit are counted: at most ``max_rows`` of them, chosen by a keyed hash.

The rows of a unit are ordered by SHA-256(SHA-256(key ‖ text) ‖ c), and the first ``max_rows`` are
kept. The text of a row holds all columns of the source, in the order of their names; c numbers the
rows of one unit that have the same text, from 1. So

- the choice depends on the unit's own rows and on the key alone, not on other units, on the order
  of rows or columns, on threads or on the process: adding or removing a unit moves the counts by at
  most ``max_rows`` in the L1 norm;
- each row of a unit is as likely to be kept as any other, whatever it holds: what is left out is
  spread evenly over times and places, and equal rows are no exception;
- it does not depend on how rows are coded as cells. Rows without a cell count towards ``max_rows``.

The data is fixed: where rows are added later, a new row could displace one that was counted, and a
unit would have more than ``max_rows`` rows in all versions together.

Privacy does not rest on the key being secret. But whoever supplies rows must not be able to choose
which of them are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tallyveil.cube.sources import Rows
from tallyveil.quoting import identifier

__all__ = ["hashed", "kept_rows", "left_out", "unit_number"]


def _row_hash(columns: Mapping[str, str]) -> str:
    """The expression for SHA-256($key ‖ text), of the source's columns with their types.

    For each column the text has its value's text after its length, or a hyphen for NULL. So rows
    have the same text only if all their columns do.
    """
    texts = (_text(name, columns[name]) for name in sorted(columns))
    parts = " || ".join(f"coalesce(strlen({text}) || ':' || {text}, '-')" for text in texts)
    return f"unhex(sha256($key || encode({parts})))"


def unit_number(column_type: str) -> str:
    """The expression for a number of 60 bits of SHA-256($key ‖ "unit " ‖ text), of the column
    ``unit``. Summed by cell, it notices units that exchange their cells, and keeps no unit."""
    text = _text("unit", column_type)
    return f"CAST('0x' || left(sha256($key || encode('unit ' || {text})), 15) AS BIGINT)"


def _text(column: str, column_type: str) -> str:
    """The value as DuckDB writes it, which must not depend on the session's time zone."""
    name = identifier(column)
    text = f"TRY_CAST({name} AS VARCHAR)"
    if column_type != "TIMESTAMP WITH TIME ZONE":
        return text
    utc = f"CAST(make_timestamp(epoch_us({name})) AS VARCHAR)"
    return f"CASE WHEN isfinite({name}) THEN {utc} ELSE {text} END"


def hashed(rows: Rows, unit: str, columns: Mapping[str, str], most: int) -> str:
    """`_row_hash`, which takes most of the time, for rows of units that have more than ``most``
    rows; NULL for others where the rows can be read again."""
    if not rows.again:
        return _row_hash(columns)
    large = (
        f"SELECT {unit} FROM {rows.relation} AS origin WHERE {unit} IS NOT NULL"
        f" GROUP BY {unit} HAVING count(*) > {most}"
    )
    return f"CASE WHEN {unit} IN ({large}) THEN {_row_hash(columns)} END"


def kept_rows(records: str, values: Sequence[str], most: int) -> str:
    """The SELECT of the rows kept from ``records``, which have columns ``unit`` and ``hash``.

    Rows of the same hash are numbered in the order of their ``values``, the columns that are
    counted. So what is counted is settled even where DuckDB writes two values as the same text.

    However often ``records`` reads the source, and whatever it finds there, no unit has more rows.
    """
    copy = f"row_number() OVER (PARTITION BY unit, hash ORDER BY {', '.join(values)})"
    place = f"unhex(sha256(hash || encode(CAST({copy} AS VARCHAR))))"
    first = f"row_number() OVER (PARTITION BY unit ORDER BY place) <= {most}"
    return (
        f"WITH records AS MATERIALIZED (SELECT * FROM ({records}) WHERE unit IS NOT NULL)"
        f" SELECT * FROM (SELECT *, {place} AS place FROM records WHERE hash IS NOT NULL"
        " UNION ALL SELECT *, NULL FROM records WHERE hash IS NULL)"
        f" QUALIFY {first}"
    )


def left_out(rows: Rows, unit: str, most: int) -> str:
    """The SELECT of how many rows units have, and how many of them are not kept."""
    sizes = (
        f"SELECT {rows.counted()} AS n FROM {rows.relation} AS origin"
        f" WHERE {unit} IS NOT NULL GROUP BY {unit}"
    )
    lost = f"greatest(n - {most}, 0)"
    return f"SELECT coalesce(sum(n), 0), coalesce(sum({lost}), 0) FROM ({sizes})"
