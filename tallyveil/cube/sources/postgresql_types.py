"""How PostgreSQL sends the values of each of its types, and how DuckDB reads them.

A value keeps its meaning: DuckDB reads what it would read from a Parquet file with the same values.
No value fails: what a type of DuckDB cannot hold is beyond every end (a year after 294246), or NULL
(NaN in a numeric).

PostgreSQL may count equal rows only where equal values are the same. Texts are compared byte by
byte, whatever their collation; numbers that are equal and written differently, such as 1.0 and 1.00
or -0 and 0, are sent one by one, and so is what hardly two rows have in common, such as instants.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import pyarrow as pa

__all__ = ["Sent", "sent"]


@dataclass(frozen=True)
class Sent:
    """``sql`` is what PostgreSQL computes of a column, given its quoted name and the longest text
    that may be sent; ``read`` is what DuckDB makes of the result, of this Arrow ``type``. ``few``
    says whether many rows may be expected to have the same value, by which they are grouped as
    ``apart``, given the quoted name.
    """

    type: pa.DataType
    sql: Callable[[str, int], str]
    read: Callable[[str], str]
    few: bool
    apart: Callable[[str], str] = "{0}".format


def sent(oid: int, modifier: int) -> Sent:
    """How a column of the type with this number is sent. ``modifier`` is that of the column."""
    if oid == _NUMERIC and modifier >= 0:
        precision, scale = (modifier - 4) >> 16, (modifier - 4) & 0x7FF
        if scale <= precision <= 38:  # otherwise the scale may also be negative
            return _text_of(f"TRY_CAST({{0}} AS DECIMAL({precision}, {scale}))", few=precision <= 5)
    return _SENT.get(oid, _TEXT)


def _cut(text: str, longest: int) -> str:
    """A text that is too long, as its beginning and a digest of it: no two of them are equal."""
    digest = f"encode(sha256(convert_to({text}, 'UTF8')), 'hex')"
    return (
        f"(CASE WHEN octet_length({text}) <= {longest} THEN {text}"
        f' ELSE left({text}, {longest // 8}) || {digest} END) COLLATE "C"'
    )


def _bytes(name: str, longest: int) -> str:
    digest = f"substring({name}, 1, {longest // 8}) || sha256({name})"
    whole = f"CASE WHEN octet_length({name}) <= {longest // 2} THEN {name} ELSE {digest} END"
    return f"encode({whole}, 'hex')"


def _byte(name: str, longest: int) -> str:
    # A byte from 128 on is no text; its number is negative.
    return f'CASE WHEN {name}::int < 0 THEN {name}::int::text ELSE {name}::text END COLLATE "C"'


def _same(name: str, longest: int) -> str:
    return name


def _plain(kind: pa.DataType, *, few: bool = True) -> Sent:
    return Sent(kind, _same, "{0}".format, few)


def _text_of(read: str, *, few: bool = False) -> Sent:
    return Sent(pa.string(), _same, read.format, few)


# A date before Christ is written 0044-03-15 BC by one and 0044-03-15 (BC) by the other.
_DATE: Final = _text_of("TRY_CAST(replace({0}, ' BC', ' (BC)') AS DATE)", few=True)


def _instant(kind: str) -> Sent:
    before = r"regexp_replace({0}, '^(\S+) (\S+) BC$', '\1 (BC) \2')"
    return _text_of(
        f"CASE WHEN suffix({{0}}, ' BC') THEN TRY_CAST({before} AS {kind})"
        f" WHEN {{0}} IS NOT NULL THEN coalesce(TRY_CAST({{0}} AS {kind}), 'infinity'::{kind}) END"
    )


# Finite numbers are at most 1e147456 by definition; no end of a domain is beyond 1e308.
_NUMBER: Final = Sent(
    pa.string(),
    lambda name, longest: _cut(f"replace({name}::numeric::text, 'Infinity', '1e308')", longest),
    "{0}".format,
    few=False,
)
_TEXT: Final = Sent(
    pa.string(),
    lambda name, longest: _cut(f"{name}::text", longest),
    "{0}".format,
    few=True,
    apart='{0}::text COLLATE "C"'.format,
)
_NUMERIC: Final = 1700
_SENT: Final = MappingProxyType(
    {
        16: _plain(pa.bool_()),
        17: Sent(pa.string(), _bytes, "unhex({0})".format, few=False),  # bytea
        18: Sent(pa.string(), _byte, "{0}".format, few=True),  # "char"
        20: _plain(pa.int64()),
        21: _plain(pa.int16()),
        23: _plain(pa.int32()),
        26: _plain(pa.int64()),  # oid
        700: _plain(pa.float32(), few=False),
        701: _plain(pa.float64(), few=False),
        790: _NUMBER,  # money
        1082: _DATE,
        1083: _text_of("TRY_CAST({0} AS TIME)"),
        1114: _instant("TIMESTAMP"),
        1184: _instant("TIMESTAMPTZ"),
        1186: _text_of("TRY_CAST(replace({0}, '+', '') AS INTERVAL)"),
        _NUMERIC: _NUMBER,
        2950: _text_of("TRY_CAST({0} AS UUID)"),
    }
)
