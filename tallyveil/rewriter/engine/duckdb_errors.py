"""DuckDB's errors as ours. Their messages speak of SQL, domains and noisy rows only."""

from __future__ import annotations

import re
from typing import Final

import duckdb

from tallyveil import deadline
from tallyveil.errors import (
    DataError,
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
from tallyveil.rewriter.engine.duckdb_words import in_postgresqls_words, with_postgresqls_types

__all__ = ["BROKEN", "as_duckdb", "translate"]

# How what the macros of `rewriter.postgres` raise begins.
_NO_VALUE: Final = (
    "cannot take", "zero raised", "a negative number raised", "value out of range: overflow",
    "date field value out of range: years",
)  # fmt: skip

# Mistakes of DuckDB itself. After some of them its database answers nobody any more.
BROKEN: Final = (duckdb.InternalException, duckdb.FatalException)

_ERRORS: Final = {
    duckdb.ConversionException: DataError,
    duckdb.OutOfRangeException: NumericValueOutOfRange,
    duckdb.InvalidInputException: InvalidParameterValue,
    duckdb.BinderException: DatatypeMismatch,
    duckdb.NotImplementedException: FeatureNotSupported,
    duckdb.CatalogException: UndefinedFunction,
}


# What kind of error it is; once more where it is one of the sum inside LIST_SUM.
_KIND: Final = re.compile(
    r"^[A-Z][A-Za-z ]+ Error: (No matching aggregate function\s+[A-Z][A-Za-z ]+ Error: )?"
)


def as_duckdb(error: Exception) -> duckdb.Error:
    """What DuckDB raises while Arrow reads from it is an error of Arrow's, with DuckDB's text."""
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
            "DuckDB cannot evaluate this statement, through a mistake of its own",
            hint="Write it in another way. What has been paid for is remembered.",
        )
    if "expression depth limit" in message:
        return StatementTooComplex(
            "the statement is nested too deeply, or has too many parts to work on",
            hint="Ask in several statements.",
        )
    if isinstance(error, duckdb.OutOfMemoryException):
        return StatementTooComplex(
            "evaluating the statement takes more memory than there is for it",
            hint="Mention fewer attributes, ask for fewer rows or for shorter texts.",
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
            "DuckDB does not read a construct of the statement", hint="Write it in another way."
        )
    ours = in_postgresqls_words(message)
    if ours is not None:
        return ours
    words = with_postgresqls_types(message.split("\n")[0])
    kinds = (kind for of, kind in _ERRORS.items() if isinstance(error, of))
    return next(kinds, DataError)(words)
