"""Which rows of a privacy unit are counted: at most ``max_rows`` of them, chosen by a keyed hash.

The rows of a unit are ordered by the first 60 bits of h = SHA-256(key ‖ text), and the first
``max_rows`` are kept. The text of a row holds the columns that are read, in the order of their
names. Of rows of one unit that have the same text, the one with number c > 1 is placed by
SHA-256(h ‖ c) instead. So

- the choice depends on the unit's own rows and on the key alone, not on other units, on the order
  of rows or columns, on threads or on the process: adding or removing a unit moves the counts by at
  most ``max_rows`` in the L1 norm;
- each row of a unit is as likely to be kept as any other, whatever it holds: what is left out is
  spread evenly over times and places, and equal rows are no exception.
  Where the policy names a column of times, the earliest rows are kept, and so of equal times;
- it does not depend on how rows are coded as cells. Rows without a cell count towards ``max_rows``.

Where data grows, a new row must not displace one that was counted, or a unit would have more than
``max_rows`` rows in all versions together. There rows are kept in the order of their days, and by
the hash within a day: a list that only ever grows at its end.

Privacy does not rest on the key being secret. But whoever supplies rows must not be able to choose
which of them are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tallyveil.cube.sources import Rows
from tallyveil.quoting import identifier

__all__ = ["Bound", "kept_rows", "left_out", "unit_hash", "unit_number"]


class Bound(NamedTuple):
    """How many rows of a unit are kept: ``most``, in all or ``each_day``.

    Where data grows, ``day`` is the column of a row's day, and rows are kept in the order of their
    days: then those that are kept of days that are over never change. ``before`` is a table of how
    many rows ``n`` of the units with a hash ``upper``, ``lower`` were kept of earlier days;
    ``identity`` is the expression for that hash. If ``timed``, rows are in the order of days, of a
    column ``time`` and of hashes; those without a time are the last of their day."""

    most: int
    day: str | None = None
    each_day: bool = False
    before: str | None = None
    identity: tuple[str, str] = ("", "")
    timed: bool = False


def _row_hash(columns: Mapping[str, str]) -> str:
    """The expression for SHA-256($key ‖ text) in hexadecimal digits, of the columns with their
    types.

    For each column the text has its value's text after its length and a colon, or a colon alone for
    NULL. So rows have the same text only if all their columns do.
    """
    texts = (_text(name, columns[name]) for name in sorted(columns))
    parts = ", ".join(f"strlen({text}), ':', {text}" for text in texts)
    return f"sha256($key || encode(concat({parts})))"


def unit_number(column_type: str) -> str:
    """The expression for a number of 60 bits of MD5($key ‖ "unit " ‖ text), of the column ``unit``.
    Summed by cell, it notices units that exchange their cells, and keeps no unit. Nobody gains by
    two units with one number, so a fast hash will do."""
    text = _text("unit", column_type)
    return f"CAST(md5_number(($key || encode('unit ')) || encode({text})) >> 68 AS BIGINT)"


def unit_hash(column_type: str) -> tuple[str, str]:
    """The expressions for both halves of MD5($key ‖ "kept " ‖ text), of the column ``unit``. By it
    a unit is found again that was counted before; without the key it names nobody."""
    text = f"$key || encode('kept ' || {_text('unit', column_type)})"
    return f"md5_number_upper({text})", f"md5_number_lower({text})"


def _text(column: str, column_type: str) -> str:
    """The value as DuckDB writes it, which must not depend on the session's time zone."""
    name = identifier(column)
    text = f"TRY_CAST({name} AS VARCHAR)"
    if column_type != "TIMESTAMP WITH TIME ZONE":
        return text
    utc = f"CAST(make_timestamp(epoch_us({name})) AS VARCHAR)"
    return f"CASE WHEN isfinite({name}) THEN {utc} ELSE {text} END"


def kept_rows(
    coded: Callable[[str, str, str], str],
    records: str,
    unit: str,
    columns: Mapping[str, str],
    cells: Sequence[str],
    bound: Bound,
) -> str:
    """The SELECT of the rows kept from the SELECT ``records``, which have a ``unit``, an expression
    over their ``columns`` with these types.

    ``coded(relation, unit, hash)`` is the SELECT of a relation's rows, coded, with columns ``unit``
    and ``hash`` by these expressions.

    The source is read once, whatever it would give if it were read again, so that no unit has more
    rows. Only rows of units with more than ``most`` rows are hashed. Rows of the same hash are
    numbered in the order of their ``cells``. So what is counted is settled even where DuckDB writes
    two values as the same text.

    A window over all rows in order takes a third of the time of one with a partition for each unit:
    a row is among the first r of its unit where the row r places before it is another unit's.
    """
    every, most = f"WITH records AS MATERIALIZED ({records})", str(bound.most)
    small, large = "", coded("records", unit, _row_hash(columns))
    passed = "hash, time" if bound.timed else "hash"
    if bound.before is None:
        many = f"SELECT {unit} FROM records GROUP BY {unit} HAVING count(*) > {most}"
        every += f", large AS MATERIALIZED ({many})"
        few = coded(f"(FROM records WHERE {unit} NOT IN (FROM large))", unit, "NULL")
        small = f"SELECT * EXCLUDE ({passed}) FROM ({few}) UNION ALL "
        large = coded(f"(FROM records WHERE {unit} IN (FROM large))", unit, _row_hash(columns))
        more = ""
    else:
        upper, lower = bound.identity
        large = (
            f"SELECT coded.*, coalesce(before.n, 0) AS before FROM ({large}) AS coded LEFT JOIN"
            f" {bound.before} AS before ON before.upper = {upper} AND before.lower = {lower}"
        )
        most, more = f"CAST(greatest({most} - before, 0) AS BIGINT)", ", before"
    copy = f"row_number() OVER (PARTITION BY unit, place ORDER BY {', '.join(cells)})"
    again = _place("sha256(unhex(hash) || encode(CAST(copy AS VARCHAR)))")
    order = [*filter(None, [bound.day]), *(["time"] if bound.timed else []), "place"]
    of = ["unit", bound.day] if bound.day is not None and bound.each_day else ["unit"]
    ordered = ", ".join(["unit", *order])
    another = [f"lag({one}, {most}) OVER (ORDER BY {ordered}) IS DISTINCT FROM {one}" for one in of]
    return (
        f"{every} {small}SELECT * EXCLUDE ({passed}, copy, place{more}) FROM (SELECT * REPLACE"
        f" (CASE copy WHEN 1 THEN place ELSE {again} END AS place) FROM (SELECT *, {copy} AS copy"
        f" FROM (SELECT *, {_place('hash')} AS place FROM ({large}))))"
        f" QUALIFY {' OR '.join(another)}"
    )


def _place(digits: str) -> str:
    """The first 60 bits of a hash, as a number: rows are compared by these."""
    return f"CAST('0x' || left({digits}, 15) AS BIGINT)"


def left_out(rows: Rows, units: Sequence[str], most: int) -> str:
    """The SELECT of how many rows units have, and how many of them are not kept. The first of the
    expressions ``units`` is the unit."""
    sizes = (
        f"SELECT {rows.counted()} AS n FROM {rows.relation} AS origin"
        f" WHERE {units[0]} IS NOT NULL GROUP BY {', '.join(units)}"
    )
    lost = f"greatest(n - {most}, 0)"
    return f"SELECT coalesce(sum(n), 0), coalesce(sum({lost}), 0) FROM ({sizes})"
