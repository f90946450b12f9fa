"""Translate DuckDB's messages about values and types to PostgreSQL's, with its SQLSTATEs.

The first pattern that matches the whole message decides. Any other message stays, with PostgreSQL's
names for the types.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from tallyveil.errors import (
    CannotCoerce,
    CardinalityViolation,
    DatetimeFieldOverflow,
    FeatureNotSupported,
    GroupingError,
    InvalidDatetimeFormat,
    InvalidEscapeSequence,
    InvalidLimit,
    InvalidNtile,
    InvalidParameterValue,
    InvalidRegularExpression,
    InvalidTextRepresentation,
    NumericValueOutOfRange,
    StatementError,
    UndefinedColumn,
    UndefinedFunction,
    UndefinedTable,
    WindowingError,
)

__all__ = ["translate_message", "translate_types"]


class _Entry(NamedTuple):
    """``message`` and ``hint`` may use the pattern's groups: types in ``type`` and ``from`` get
    PostgreSQL's names, and ``name`` is a name in the statement."""

    pattern: str
    error: type[StatementError]
    message: str
    hint: str | None = None


_CAST: Final = "Cast one to the type of the other."
_GUARD: Final = "Guard it: CASE WHEN … THEN … END."
_WINDOWS: Final = "Compute the window function in a subquery."
_OPERATOR: Final = "Cast one side, as in born + interval '1 day' or born::text || 'x'."


_ENTRIES: Final = (
    _Entry(r'(?:date|time|timestamp) field value out of range: "(?P<value>.*?)".*',
        DatetimeFieldOverflow, 'date/time field value out of range: "{value}"'),
    _Entry(r'invalid (?P<type>date|time|timestamp) field format: "(?P<value>.*?)".*',
        InvalidDatetimeFormat, 'invalid input syntax for type {type}: "{value}"',
        "Write a date as 2024-02-29, a time as 2024-02-29 12:30:00."),
    _Entry(r"Type (?P<from>\S+) with value .* can't be cast because the value is out of range for "
        r"the destination type (?P<type>\S+)(?: when casting from source column .*)?",
        NumericValueOutOfRange, "{type} out of range", "Cast to a wider type."),
    _Entry(r'(?:Could not cast value .* to|Casting value ".*?" to type) DECIMAL\((?P<type>.*?)\)'
        r"(?: when .*| failed: value is out of range!)?",
        NumericValueOutOfRange, "numeric field overflow",
        "The type numeric({type}) has too few digits for the value."),
    _Entry(r"(?P<value>missing [])]: .*|unexpected \): .*|no argument for repetition operator: .*|"
        r"(?:bad|invalid) (?:repetition|character class|escape|perl).*|trailing \\.*)",
        InvalidRegularExpression, "invalid regular expression: {value}"),
    _Entry(r"Overflow in \w+ of (?P<type>\w+) .*",
        NumericValueOutOfRange, "{type} out of range",
        "Cast to a wider type, such as bigint or numeric."),
    _Entry(r"(?:Overflow in \w+ of|Could not \w+) ?(?P<type>DECIMAL)\(?"
        r".*(?:overflow|out of range).*",
        NumericValueOutOfRange, "numeric field overflow"),
    _Entry(r"Could not convert string ['\"](?P<value>.*)['\"] to (?P<type>\w+).*",
        InvalidTextRepresentation, 'invalid input syntax for type {type}: "{value}"'),
    _Entry(r"Type \S+ with value '(?P<value>.*)' can't be cast to the destination type \S+\[\]",
        InvalidTextRepresentation, "malformed array literal: '{value}'", "Write ARRAY[1, 2]."),
    _Entry(r"Unimplemented type for cast \((?P<from>.*) -> (?P<type>.*?)\)(?: when .*)?",
        CannotCoerce, "cannot cast type {from} to {type}"),
    _Entry(r"DECIMAL type width must be between 1 and 38",
        InvalidParameterValue, "NUMERIC precision must be between 1 and 38"),
    _Entry(r"extract specifier \"(?P<value>.*)\" not recognized",
        InvalidDatetimeFormat, 'invalid input syntax for type interval: "{value}"'),
    _Entry(r"[Cc]annot (?P<value>subtract infinite \w+).*",
        DatetimeFieldOverflow, "cannot {value}", _GUARD),
    _Entry(r".*(?:not in (?P<type>timestamp|date) range|(?P<kind>[Tt]imestamp|[Dd]ate|[Ii]nterval)"
        r"[^.]{0,200}(?:out of range|overflow)).*",
        DatetimeFieldOverflow, "date, time or interval out of range", _GUARD),
    _Entry(r"No function matches the given name and argument types '(?P<value>[^\w(]+)"
        r"\((?P<type>.*?), (?P<from>.*?)\)'\..*",
        UndefinedFunction, "operator does not exist: {type} {value} {from}", _OPERATOR),
    _Entry(r'Could not choose a best candidate function for the function call "(?P<value>[^\w(]+)'
        r'\((?P<type>.*?), (?P<from>.*?)\)"\..*',
        UndefinedFunction, "operator is not unique: {type} {value} {from}", _OPERATOR),
    _Entry(r'Could not choose a best candidate function for the function call "(?P<type>.*?)"\..*',
        UndefinedFunction, "function {type} is not unique", "Cast the arguments: x::date."),
    _Entry(r"No function matches the given name and argument types 'sum\(INTERVAL\)'\..*",
        FeatureNotSupported, "sums and averages of intervals are not answered",
        "Ask in seconds: sum(extract(epoch FROM …)), avg(extract(epoch FROM …))."),
    _Entry(r"No function matches the given name and argument types '(?P<type>.*?)'\..*",
        UndefinedFunction, "function {type} does not exist",
        "No function matches the given name and argument types. You might need to add explicit "
        "type casts."),
    _Entry(r"Cannot (?:compare|mix) values of type (?P<from>.*?) (?:and|with) (?:type )?"
        r"(?P<type>\S+).*",
        UndefinedFunction, "values of types {from} and {type} cannot be compared or mixed", _CAST),
    _Entry(r"Cannot extract field '(?P<value>.*)' from expression .*",
        UndefinedColumn, 'column "{value}" does not exist'),
    # Every result column has a name, so DuckDB may mistake a column that is missing for that one.
    _Entry(r'(?:Referenced column|Column) "(?P<name>.+?)" (?:(?:was )?not found|referenced that'
        r" exists in the SELECT clause - but this column cannot be referenced before it is"
        r" defined).*",
        UndefinedColumn, 'column "{name}" does not exist'),
    _Entry(r'Referenced table "(?P<name>.+?)" not found.*',
        UndefinedTable, 'missing FROM-clause entry for table "{name}"'),
    _Entry(r'(?:Table|Values list) "(?P<table>.+?)" does not have a column named'
        r' "(?P<name>.+?)".*',
        UndefinedColumn, "column {table}.{name} does not exist"),
    _Entry(r'column "(?P<name>.+?)" must appear in the GROUP BY clause or .*',
        GroupingError, 'column "{name}" must appear in GROUP BY or inside an aggregate'),
    _Entry(r"aggregate function calls cannot be nested.*",
        GroupingError, "aggregate function calls cannot be nested"),
    _Entry(r"WHERE clause cannot contain aggregates.*",
        GroupingError, "aggregate functions are not allowed in WHERE"),
    _Entry(r"aggregate function calls cannot contain window function calls.*",
        GroupingError, "aggregate function calls cannot contain window function calls", _WINDOWS),
    # DuckDB says WHERE also for ON, and for HAVING over records.
    _Entry(r"(?:WHERE|HAVING) clause cannot contain window functions.*",
        WindowingError, "window functions are not allowed in WHERE, HAVING or JOIN conditions",
        _WINDOWS),
    _Entry(r"GROUP BY clause cannot contain window functions.*",
        WindowingError, "window functions are not allowed in GROUP BY", _WINDOWS),
    _Entry(r"Window functions are not supported here.*",
        WindowingError, "window functions are not allowed in LIMIT or OFFSET"),
    _Entry(r"\w+(?: \w+)? Function with name \"?(?P<value>\w+)\"? does not exist.*",
        UndefinedFunction, "function {value} does not exist"),
    _Entry(r"More than one row returned by a subquery used as an expression.*",
        CardinalityViolation, "more than one row returned by a subquery used as an expression",
        "Aggregate in the subquery: (SELECT max(x) FROM … WHERE …)."),
    _Entry(r"Like pattern must not end with escape character!",
        InvalidEscapeSequence, "LIKE pattern must not end with escape character",
        "Write the escape character twice to match itself."),
    _Entry(r"Argument for ntile must be greater than zero",
        InvalidNtile, "argument of ntile must be greater than zero"),
    _Entry(r"LIMIT/OFFSET cannot be negative",
        InvalidLimit, "LIMIT and OFFSET must not be negative", "Give 0 or more."),
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


def translate_types(text: str) -> str:
    return _TYPE.sub(lambda match: _TYPES.get(match[0], "numeric"), text)


def translate_message(message: str) -> StatementError | None:
    """PostgreSQL's error, or None if no pattern matches."""
    for entry in _ENTRIES:
        match = re.fullmatch(entry.pattern, message, re.DOTALL)
        if match is not None:
            values = {
                name: translate_types(text) if name in ("type", "from") else text
                for name, text in match.groupdict("").items()
            }
            hint = entry.hint.format(**values) if entry.hint else None
            error = entry.error(entry.message.format(**values), hint=hint)
            error.about = values.get("name")
            return error
    return None
