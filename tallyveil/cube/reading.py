"""How a stored value is read as an attribute's type: a DuckDB expression that never fails.

The rule by the attribute's type follows. Values that cannot be read are NULL.

- VARCHAR: the value as DuckDB writes it, or its first characters, compared byte by byte.
- BOOLEAN: booleans; the numbers 0 and 1; the words true, t, yes, y, 1, false, f, no, n, 0 in any
  case.
- INTEGER, BIGINT: numbers and booleans. 59.0 is 59; a number with a fraction is never rounded: it
  is outside every range and equals no declared value. Text is read if it is a decimal number (sign,
  digits, point, exponent), with spaces around it ignored; with a point or an exponent it is read as
  a double first.
- DOUBLE: numbers as doubles; text as above.
- DATE: dates; the day of a timestamp (in UTC where it has a zone); text that starts with
  YYYY-MM-DD, alone or before a time of day.
- a range in steps: the distance from the first step, see `steps`.

NaN is NULL; infinities are beyond every end.
"""

from __future__ import annotations

from tallyveil.cube.steps import distance
from tallyveil.policy import Attribute
from tallyveil.quoting import identifier

__all__ = ["INTEGERS", "read", "read_count", "truncates"]

_SMALL = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
_WIDE = {"UBIGINT", "HUGEINT"}
INTEGERS = _SMALL | _WIDE
_FLOATS = {"FLOAT", "DOUBLE"}
_TEXT = {"VARCHAR", "ENUM", "JSON", "UHUGEINT", "BIGNUM", '"NULL"'}
_STAMPS = {"TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"}

_DIGITS = r"[ \t]*[+-]?[0-9]+[ \t]*"
_DECIMAL = r"[ \t]*[+-]?([0-9]+(\.[0-9]+)?|\.[0-9]+)([eE][+-]?[0-9]+)?[ \t]*"
_DAY = r"[ \t]*[0-9]{4}-[0-9]{2}-[0-9]{2}([ T].*)?"
# Beyond every 64-bit value: stands for a number that no domain can declare.
_BEYOND = "CAST(9223372036854775808 AS HUGEINT)"


def read(attribute: Attribute, column: str, column_type: str) -> str | None:
    """The expression for the column's value, or None if its type cannot be read as the attribute's.

    Integers are BIGINT or HUGEINT.
    """
    name, base = identifier(column), column_type.split("(")[0]
    if column_type.endswith("]"):
        base = "LIST"
    if attribute.step is not None:
        return distance(attribute, name, column_type)
    match attribute.sql_type:
        case "VARCHAR":
            text = f"CAST({name} AS VARCHAR)"
            return text if attribute.prefix is None else _first(attribute, text)
        case "BOOLEAN":
            return _boolean(name, base)
        case "DATE":
            return _date(name, base)
        case "DOUBLE":
            return _double(name, base)
    if attribute.binned:
        return _integer(name, base, whole=False)
    return _integer(name, base, ends=_clamping(attribute))


def _first(attribute: Attribute, text: str) -> str:
    return f"left({text}, {attribute.prefix})"


def read_count(column: str, column_type: str) -> str | None:
    """The expression for a number of records, as an INTEGER attribute is read; None if the type
    holds no numbers. A number with a fraction is beyond every 64-bit value.
    """
    base = column_type.split("(")[0]
    return None if base == "BOOLEAN" else _integer(identifier(column), base)


def truncates(attribute: Attribute, column_type: str) -> str | None:
    """`Attribute.truncates` for a column of this type.

    Only days can hold several values of the source: a number with a fraction is not read as an
    integer, and bins define what they hold.
    """
    base = column_type.split("(")[0]
    if attribute.sql_type != "DATE" or base == "DATE":
        return None
    if base in _TEXT:
        return "VARCHAR"
    return "TIMESTAMP" if base in _STAMPS else base


def _boolean(name: str, base: str) -> str | None:
    if base == "BOOLEAN":
        return name
    if base in _SMALL | _WIDE:
        return f"CASE {name} WHEN 1 THEN TRUE WHEN 0 THEN FALSE END"
    if base in _TEXT:
        word = f"lower(trim(CAST({name} AS VARCHAR)))"
        return (
            f"CASE WHEN {word} IN ('true', 't', 'yes', 'y', '1') THEN TRUE "
            f"WHEN {word} IN ('false', 'f', 'no', 'n', '0') THEN FALSE END"
        )
    return None


def _date(name: str, base: str) -> str | None:
    if base == "DATE":
        return name
    if base in _STAMPS:
        return f"CAST({name} AS DATE)"
    if base == "TIMESTAMP WITH TIME ZONE":
        # A cast would use the session's time zone, but a file must always give the same counts.
        utc = f"CAST(make_timestamp(epoch_us({name})) AS DATE)"
        return f"CASE WHEN isfinite({name}) THEN {utc} ELSE CAST({name} AS DATE) END"
    if base in _TEXT:
        text = f"CAST({name} AS VARCHAR)"
        day = f"TRY_CAST(left(ltrim({text}, ' \t'), 10) AS DATE)"
        return f"CASE WHEN regexp_full_match({text}, '{_DAY}', 's') THEN {day} END"
    return None


def _double(name: str, base: str) -> str | None:
    if base in _SMALL | _WIDE or base == "DECIMAL":
        return f"CAST({name} AS DOUBLE)"
    if base in _FLOATS:
        return f"CASE WHEN NOT isnan({name}) THEN CAST({name} AS DOUBLE) END"
    if base in _TEXT:
        text = f"CAST({name} AS VARCHAR)"
        return (
            f"CASE WHEN regexp_full_match({text}, '{_DECIMAL}') THEN TRY_CAST({text} AS DOUBLE) END"
        )
    return None


def _clamping(attribute: Attribute) -> tuple[int, int] | None:
    """The ends to which values beyond them are moved."""
    if not attribute.clamp:
        return None
    whole = [cell for cell in attribute.cells if isinstance(cell, int)]
    return whole[0], whole[-1]


def _integer(
    name: str, base: str, *, ends: tuple[int, int] | None = None, whole: bool = True
) -> str | None:
    """A whole number, exactly. See `_whole` for one with a fraction."""
    if base in _SMALL or base == "BOOLEAN":
        return f"CAST({name} AS BIGINT)"
    if base in _WIDE:
        return f"CAST({name} AS HUGEINT)"
    if base == "DECIMAL":
        return _whole(name, f"CAST(floor({name}) AS HUGEINT)", ends, whole)
    number = _double(name, base)
    if number is None:
        return None
    # Beyond 64 bits nothing is declared, and a double up to 1e19 is a HUGEINT exactly.
    floor = f"CAST(floor(least(greatest({number}, -1e19), 1e19)) AS HUGEINT)"
    value = f"CASE WHEN ({number}) IS NOT NULL THEN {_whole(number, floor, ends, whole)} END"
    if base in _TEXT:
        digits = f"TRY_CAST(CAST({name} AS VARCHAR) AS HUGEINT)"
        digits = (
            f"CASE WHEN regexp_full_match(CAST({name} AS VARCHAR), '{_DIGITS}') THEN {digits} END"
        )
        value = f"coalesce({digits}, {value})"
    return value


def _whole(number: str, floor: str, ends: tuple[int, int] | None, whole: bool) -> str:
    """``floor`` where the number is whole, and otherwise what a number with a fraction counts as.

    It equals no declared value. If clamping moves it to an end, that is where its floor goes too;
    between two cells it is beyond neither end, and NULL. With ``whole`` false, for bins whose edges
    are integers, floor is used for all numbers: v >= edge holds exactly where floor(v) >= edge.
    """
    if not whole:
        return floor
    fraction = _BEYOND
    if ends is not None:
        fraction = f"CASE WHEN {floor} < {ends[0]} OR {floor} >= {ends[1]} THEN {floor} END"
    return (
        # Beside its floor a number of 38 digits would be cast, and may not fit.
        f"CASE WHEN ceil({number}) = floor({number}) THEN {floor} "
        f"WHEN ({number}) IS NOT NULL THEN {fraction} END"
    )
