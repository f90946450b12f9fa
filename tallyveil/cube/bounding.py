"""Which rows of a privacy unit are counted: at most ``max_rows`` of them, chosen by a keyed hash.

The rows of a unit are ordered by h = SHA-256(key ‖ text), and the first ``max_rows`` are kept. The
text of a row holds the columns that are read, in the order of their names. Of rows of one unit that
have the same text, the one with number c > 1 is placed by SHA-256(h ‖ c) instead. So

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
    """The expression for SHA-256($key ‖ text), of the columns with their types.

    For each column the text has its value's text after its length and a colon, or a colon alone for
    NULL. So rows have the same text only if all their columns do.
    """
    texts = (_text(name, columns[name]) for name in sorted(columns))
    parts = ", ".join(f"strlen({text}), ':', {text}" for text in texts)
    return f"unhex(sha256($key || encode(concat({parts}))))"


def unit_number(column_type: str) -> str:
    """The expression for a number of 60 bits of MD5($key ‖ "unit " ‖ text), of the column ``unit``.
    Summed by cell, it notices units that exchange their cells, and keeps no unit. Nobody gains by
    two units with one number, so a fast hash will do."""
    text = _text("unit", column_type)
    return f"CAST(md5_number($key || encode('unit ' || {text})) >> 68 AS BIGINT)"


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


def kept_rows(coded: str, cells: Sequence[str], most: int) -> str:
    """The SELECT of the rows kept from ``coded``, which have columns ``unit`` and ``hash``.

    Rows of the same hash are numbered in the order of their ``cells``. So what is counted is
    settled even where DuckDB writes two values as the same text.

    However often ``coded`` reads the source, and whatever it finds there, no unit has more rows:
    which units have too many is counted once more among the rows that were read.
    """
    copy = f"row_number() OVER (PARTITION BY unit, hash ORDER BY {', '.join(cells)})"
    again = "unhex(sha256(hash || encode(CAST(copy AS VARCHAR))))"
    place = f"CASE WHEN copy = 1 THEN hash ELSE {again} END"
    first = f"row_number() OVER (PARTITION BY unit ORDER BY place) <= {most}"
    return (
        f"WITH records AS MATERIALIZED (SELECT * FROM ({coded}) WHERE unit IS NOT NULL), large AS"
        f" MATERIALIZED (SELECT unit FROM records GROUP BY unit HAVING count(*) > {most})"
        " SELECT * EXCLUDE (hash) FROM records ANTI JOIN large USING (unit) UNION ALL"
        f" SELECT * EXCLUDE (hash, copy, place) FROM (SELECT *, {place} AS place FROM (SELECT *,"
        f" {copy} AS copy FROM records SEMI JOIN large USING (unit))) QUALIFY {first}"
    )


def left_out(rows: Rows, unit: str, most: int) -> str:
    """The SELECT of how many rows units have, and how many of them are not kept."""
    sizes = (
        f"SELECT {rows.counted()} AS n FROM {rows.relation} AS origin"
        f" WHERE {unit} IS NOT NULL GROUP BY {unit}"
    )
    lost = f"greatest(n - {most}, 0)"
    return f"SELECT coalesce(sum(n), 0), coalesce(sum({lost}), 0) FROM ({sizes})"
