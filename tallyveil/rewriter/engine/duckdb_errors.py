"""DuckDB's errors as ours. Their messages only concern SQL, domains and noisy rows."""

from __future__ import annotations

import re
from typing import Final

import duckdb

from tallyveil import deadline
from tallyveil.errors import (
    DataException,
    DatatypeMismatch,
    DivisionByZero,
    EvaluationFailed,
    FeatureNotSupported,
    InvalidParameterValue,
    NumericValueOutOfRange,
    StatementError,
    StatementTooComplex,
    UndefinedFunction,
)
from tallyveil.rewriter.engine.duckdb_messages import translate_message, translate_types

__all__ = ["BROKEN", "as_duckdb", "translate"]

# How the messages of the macros of `rewriter.postgres` begin.
_NO_VALUE: Final = (
    "cannot take", "zero raised", "a negative number raised", "value out of range: overflow",
    "date field value out of range: years",
)  # fmt: skip

# Errors that are bugs in DuckDB. After some of them its database answers no further statement.
BROKEN: Final = (duckdb.InternalException, duckdb.FatalException)

_ERRORS: Final = {
    duckdb.ConversionException: DataException,
    duckdb.OutOfRangeException: NumericValueOutOfRange,
    duckdb.InvalidInputException: InvalidParameterValue,
    duckdb.BinderException: DatatypeMismatch,
    duckdb.NotImplementedException: FeatureNotSupported,
    duckdb.CatalogException: UndefinedFunction,
}


# The kind of error, which a message repeats for an error of the sum inside LIST_SUM.
_KIND: Final = re.compile(
    r"^[A-Z][A-Za-z ]+ Error: (No matching aggregate function\s+[A-Z][A-Za-z ]+ Error: )?"
)


def as_duckdb(error: Exception) -> duckdb.Error:
    """The error as DuckDB's. Arrow, while it reads from DuckDB, raises its own with that text."""
    if isinstance(error, duckdb.Error):
        return error
    kind = re.match(r"([A-Z][A-Za-z ]+) Error: ", str(error))
    name = kind[1].title().replace(" ", "") + "Exception" if kind else ""
    found: type[duckdb.Error] = getattr(duckdb, name, duckdb.Error)
    return found(str(error))


def translate(error: duckdb.Error) -> StatementError:
    text = re.split(r"\nLINE \d+:|\n\nCandidate", str(error), maxsplit=1)[0]
    message = _KIND.sub("", text).strip()
    if isinstance(error, duckdb.InterruptException):
        return deadline.canceled()
    if isinstance(error, BROKEN):
        return EvaluationFailed(
            "DuckDB cannot evaluate this statement because of a bug in DuckDB",
            hint="Write it in another way. What has been paid for is remembered.",
        )
    if "expression depth limit" in message:
        return StatementTooComplex(
            "the statement is nested too deeply, or has too many parts",
            hint="Ask in several statements.",
        )
    if isinstance(error, duckdb.OutOfMemoryException):
        return StatementTooComplex(
            "evaluating the statement takes more memory than its limit",
            hint="Use fewer attributes, fewer rows or shorter texts.",
        )
    if "division by zero" in message.lower():
        return DivisionByZero(
            "division by zero",
            detail="The expression divides by zero somewhere in the public domain.",
            hint="Guard the divisor with NULLIF(…, 0).",
        )
    if message.startswith(_NO_VALUE):
        return InvalidParameterValue(
            message,
            detail="This happens somewhere in the public domain.",
            hint="Guard it: CASE WHEN … THEN … END.",
        )
    if isinstance(error, duckdb.ParserException):
        return FeatureNotSupported(
            "DuckDB cannot parse a construct of the statement", hint="Write it in another way."
        )
    ours = translate_message(message)
    if ours is not None:
        return ours
    kinds = (kind for of, kind in _ERRORS.items() if isinstance(error, of))
    return next(kinds, DataException)(translate_types(message.split("\n")[0]))
