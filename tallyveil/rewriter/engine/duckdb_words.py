"""What DuckDB says of values and types, in PostgreSQL's words and with its SQLSTATEs.

The first pattern that matches the whole message decides. What none matches keeps its own words,
with PostgreSQL's names for the types.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from tallyveil.errors import (
    CannotCoerce,
    CardinalityViolation,
    DatetimeFieldOverflow,
    GroupingError,
    InvalidDatetimeFormat,
    InvalidParameterValue,
    InvalidRegularExpression,
    InvalidTextRepresentation,
    NumericValueOutOfRange,
    StatementError,
    UndefinedColumn,
    UndefinedFunction,
    UndefinedTable,
)

__all__ = ["in_postgresqls_words", "with_postgresqls_types"]


class _Saying(NamedTuple):
    """``message`` may name the groups of the pattern; ``type`` is said by PostgreSQL's name, and
    ``name`` stands in the statement."""

    pattern: str
    error: type[StatementError]
    message: str
    hint: str | None = None


_CAST: Final = "Cast one to the type of the other."
_GUARD: Final = "Guard it: CASE WHEN … THEN … END."
_FINITE: Final = "Guard it: CASE WHEN isfinite(…) THEN … END."


_SAYINGS: Final = (
    _Saying(r'(?:date|time|timestamp) field value out of range: "(?P<value>.*?)".*',
        DatetimeFieldOverflow, 'date/time field value out of range: "{value}"'),
    _Saying(r'invalid (?P<type>date|time|timestamp) field format: "(?P<value>.*?)".*',
        InvalidDatetimeFormat, 'invalid input syntax for type {type}: "{value}"',
        "Write dates and times in ISO 8601, such as 2024-02-29 or 2024-02-29 12:30:00."),
    _Saying(r"Type (?P<from>\S+) with value .* can't be cast because the value is out of range for "
        r"the destination type (?P<type>\S+)",
        NumericValueOutOfRange, "{type} out of range", "Cast to a wider type."),
    _Saying(r'(?:Could not cast value .* to|Casting value ".*?" to type) DECIMAL\((?P<type>.*?)\)'
        r"(?: when .*| failed: value is out of range!)?",
        NumericValueOutOfRange, "numeric field overflow",
        "The type numeric({type}) has too few digits for the value."),
    _Saying(r"(?P<value>missing [])]: .*|unexpected \): .*|no argument for repetition operator: .*|"
        r"(?:bad|invalid) (?:repetition|character class|escape|perl).*|trailing \\.*)",
        InvalidRegularExpression, "invalid regular expression: {value}"),
    _Saying(r"Overflow in \w+ of (?P<type>\w+) .*",
        NumericValueOutOfRange, "{type} out of range",
        "Cast to a wider type, such as bigint or numeric."),
    _Saying(r"(?:Overflow in \w+ of|Could not \w+) ?(?P<type>DECIMAL)\(?"
        r".*(?:overflow|out of range).*",
        NumericValueOutOfRange, "numeric field overflow"),
    _Saying(r"Could not convert string ['\"](?P<value>.*)['\"] to (?P<type>\w+).*",
        InvalidTextRepresentation, 'invalid input syntax for type {type}: "{value}"'),
    _Saying(r"Unimplemented type for cast \((?P<from>.*) -> (?P<type>.*?)\)(?: when .*)?",
        CannotCoerce, "cannot cast type {from} to {type}"),
    _Saying(r"DECIMAL type width must be between 1 and 38",
        InvalidParameterValue, "NUMERIC precision must be between 1 and 38"),
    _Saying(r"extract specifier \"(?P<value>.*)\" not recognized",
        InvalidDatetimeFormat, 'invalid input syntax for type interval: "{value}"'),
    _Saying(r"[Cc]annot (?P<value>subtract infinite \w+).*",
        DatetimeFieldOverflow, "cannot {value}", _FINITE),
    _Saying(r"(?P<value>an infinite \w+ has no \w+)", DatetimeFieldOverflow, "{value}", _FINITE),
    _Saying(r".*(?:not in (?P<type>timestamp|date) range|(?P<kind>[Tt]imestamp|[Dd]ate|[Ii]nterval)"
        r"[^.]{0,200}(?:out of range|overflow)).*",
        DatetimeFieldOverflow, "date, time or interval out of range", _GUARD),
    _Saying(r"No function matches the given name and argument types '(?P<type>.*?)'\..*",
        UndefinedFunction, "function {type} does not exist",
        "No function matches the given name and argument types. You might need to add explicit "
        "type casts."),
    _Saying(r"Cannot (?:compare|mix) values of type (?P<from>.*?) (?:and|with) (?:type )?"
        r"(?P<type>\S+).*",
        UndefinedFunction, "values of types {from} and {type} cannot be compared or mixed", _CAST),
    _Saying(r"Cannot extract field '(?P<value>.*)' from expression .*",
        UndefinedColumn, 'column "{value}" does not exist'),
    # Every column asked for has a name, so that DuckDB may take one it lacks for its own.
    _Saying(r'(?:Referenced column|Column) "(?P<name>.+?)" (?:(?:was )?not found|referenced that'
        r" exists in the SELECT clause - but this column cannot be referenced before it is"
        r" defined).*",
        UndefinedColumn, 'column "{name}" does not exist'),
    _Saying(r'Referenced table "(?P<name>.+?)" not found.*',
        UndefinedTable, 'missing FROM-clause entry for table "{name}"'),
    _Saying(r'(?:Table|Values list) "(?P<table>.+?)" does not have a column named'
        r' "(?P<name>.+?)".*',
        UndefinedColumn, "column {table}.{name} does not exist"),
    _Saying(r'column "(?P<name>.+?)" must appear in the GROUP BY clause or .*',
        GroupingError, 'column "{name}" must appear in GROUP BY or inside an aggregate'),
    _Saying(r"aggregate function calls cannot be nested.*",
        GroupingError, "aggregate function calls cannot be nested"),
    _Saying(r"WHERE clause cannot contain aggregates.*",
        GroupingError, "aggregate functions are not allowed in WHERE"),
    _Saying(r"\w+(?: \w+)? Function with name \"?(?P<value>\w+)\"? does not exist.*",
        UndefinedFunction, "function {value} does not exist"),
    _Saying(r"More than one row returned by a subquery used as an expression.*",
        CardinalityViolation, "more than one row returned by a subquery used as an expression",
        "Aggregate in the subquery, or add LIMIT 1."),
    _Saying(r"LIMIT/OFFSET cannot be negative",
        InvalidParameterValue, "LIMIT and OFFSET must not be negative"),
)  # fmt: skip

_TYPES: Final = {
    "BOOL": "boolean",
    "BOOLEAN": "boolean",
    "INT8": "smallint",
    "TINYINT": "smallint",
    "INT16": "smallint",
    "INT32": "integer",
    "INTEGER_LITERAL": "integer",
    "INT64": "bigint",
    "INT128": "numeric",
    "HUGEINT": "numeric",
    "FLOAT": "real",
    "DECIMAL": "numeric",
    "DOUBLE": "double precision",
    "VARCHAR": "text",
    "STRING_LITERAL": "text",
    "BLOB": "bytea",
    "TIMESTAMP WITH TIME ZONE": "timestamp with time zone",
    **{
        name: name.lower()
        for name in ("SMALLINT", "INTEGER", "BIGINT", "DATE", "TIME", "TIMESTAMP", "INTERVAL")
    },
}
_TYPE: Final = re.compile(
    r"\b(?:TIMESTAMP WITH TIME ZONE|DECIMAL(?=\()|U?(?:INT(?:8|16|32|64|128)|HUGEINT)|"
    + "|".join(_TYPES)
    + r")\b"
)


def with_postgresqls_types(text: str) -> str:
    return _TYPE.sub(lambda match: _TYPES.get(match[0], "numeric"), text)


def in_postgresqls_words(message: str) -> StatementError | None:
    """None where PostgreSQL has nothing of the kind to say."""
    for saying in _SAYINGS:
        match = re.fullmatch(saying.pattern, message, re.DOTALL)
        if match is not None:
            values = {
                name: with_postgresqls_types(text) if name in ("type", "from") else text
                for name, text in match.groupdict("").items()
            }
            hint = saying.hint.format(**values) if saying.hint else None
            error = saying.error(saying.message.format(**values), hint=hint)
            error.about = values.get("name")
            return error
    return None
