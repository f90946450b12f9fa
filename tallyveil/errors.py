"""Every error tallyveil raises, with the SQLSTATE a PostgreSQL client receives.

All are subclasses of `TallyveilError`, and of one of DB-API's classes in `tallyveil.dbapi`. Errors
in a statement are subclasses of `StatementError`; after one, nothing was charged.
`tallyveil.proxy.protocol_errors` has the errors that only PostgreSQL's protocol has, such as a
malformed message or an unknown portal, under the same root.

The text of an error depends only on the SQL, the policy and the ledger, never on a record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tallyveil.dbapi import (
    DatabaseError,
    DataError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    TallyveilError,
)

__all__ = [
    "AmbiguousColumn",
    "AnswerNeeded",
    "BinCut",
    "BudgetExceeded",
    "CannotCoerce",
    "CardinalityViolation",
    "DataException",
    "DatatypeMismatch",
    "DatetimeFieldOverflow",
    "DivisionByZero",
    "DuplicateAlias",
    "EvaluationFailed",
    "FeatureNotSupported",
    "GroupingError",
    "InsufficientPrivilege",
    "InvalidColumnReference",
    "InvalidCursorDefinition",
    "InvalidDatetimeFormat",
    "InvalidEncoding",
    "InvalidEscapeSequence",
    "InvalidLimit",
    "InvalidNtile",
    "InvalidOffset",
    "InvalidParameterValue",
    "InvalidRegularExpression",
    "InvalidTextRepresentation",
    "InvalidTimeZoneDisplacement",
    "LedgerError",
    "LedgerMismatch",
    "NumericValueOutOfRange",
    "OutputError",
    "PolicyError",
    "QueryCanceled",
    "ReceiptError",
    "RecordingLimitExceeded",
    "SQLSyntaxError",
    "SourceError",
    "StatementError",
    "StatementTooComplex",
    "TallyveilError",
    "TransactionAborted",
    "UndefinedColumn",
    "UndefinedFunction",
    "UndefinedObject",
    "UndefinedParameter",
    "UndefinedSetting",
    "UndefinedTable",
    "UnprovenPrivacy",
    "VersionReplaced",
    "WindowingError",
    "WrongObjectType",
    "positions_from",
]


@contextmanager
def positions_from(offset: int) -> Iterator[None]:
    """Inside, the SQL that is read starts at ``offset`` of a longer text. Adds the offset to the
    positions of errors, so that they count from the start of that text.
    """
    try:
        yield
    except TallyveilError as error:
        if error.position is not None:
            error.position += offset
        raise


class PolicyError(OperationalError, sqlstate="F0000"):
    """The policy is wrong. Each of ``mistakes`` gives the key, the value and what is expected."""

    def __init__(self, message: str, mistakes: Sequence[str] = ()) -> None:
        super().__init__(message, detail="\n".join(mistakes) or None)
        self.mistakes = tuple(mistakes)


class LedgerError(OperationalError, sqlstate="58030"):
    """The ledger cannot be read or written."""


class LedgerMismatch(LedgerError, sqlstate="55000"):
    """The ledger belongs to another policy or table."""


class SourceError(OperationalError, sqlstate="58030"):
    """The confidential source cannot be loaded."""


class OutputError(OperationalError, sqlstate="58030"):
    """A file cannot be written."""


class ReceiptError(InternalError):
    """A release was attempted without a valid receipt."""


class UnprovenPrivacy(InternalError):
    """A law is not as private as it claims, or is not a probability law. Nothing is drawn."""


class BudgetExceeded(OperationalError, sqlstate="53400"):
    """The charge would exceed the table's budget in some cell, or an analyst's share of it.
    Nothing was charged.

    ``requested`` and ``remaining`` are in ``unit``, epsilon or rho, per privacy unit. ``analyst``
    names the analyst whose share would be exceeded; None for the budget itself.
    """

    def __init__(
        self,
        message: str,
        *,
        requested: float,
        remaining: float,
        unit: str = "epsilon",
        analyst: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.analyst = analyst
        self.requested = requested
        self.remaining = remaining
        self.unit = unit


class StatementError(DatabaseError):
    """The statement is wrong or cannot be answered. Nothing was charged.

    ``about`` is the column or table at fault, if its position has yet to be found.
    """

    about: str | None = None


class SQLSyntaxError(StatementError, ProgrammingError, sqlstate="42601"):
    """The statement does not parse."""


class UndefinedTable(StatementError, ProgrammingError, sqlstate="42P01"): ...


class UndefinedColumn(StatementError, ProgrammingError, sqlstate="42703"): ...


class AmbiguousColumn(StatementError, ProgrammingError, sqlstate="42702"): ...


class UndefinedFunction(StatementError, ProgrammingError, sqlstate="42883"): ...


class UndefinedParameter(StatementError, ProgrammingError, sqlstate="42P02"): ...


class UndefinedObject(StatementError, ProgrammingError, sqlstate="42704"): ...


class UndefinedSetting(UndefinedObject):
    """No session setting has that name."""


class DatatypeMismatch(StatementError, ProgrammingError, sqlstate="42804"): ...


class WrongObjectType(StatementError, ProgrammingError, sqlstate="42809"): ...


class CannotCoerce(StatementError, ProgrammingError, sqlstate="42846"):
    """No cast exists from one type to the other."""


class InvalidCursorDefinition(StatementError, ProgrammingError, sqlstate="42P11"): ...


class InvalidColumnReference(StatementError, ProgrammingError, sqlstate="42P10"): ...


class DuplicateAlias(StatementError, ProgrammingError, sqlstate="42712"): ...


class GroupingError(StatementError, ProgrammingError, sqlstate="42803"): ...


class WindowingError(StatementError, ProgrammingError, sqlstate="42P20"): ...


class FeatureNotSupported(StatementError, NotSupportedError, sqlstate="0A000"):
    """The statement is understood but refused. The hint says what to ask instead."""


class AnswerNeeded(FeatureNotSupported):
    """A statement depends on answers that may be released before it, or is a PIVOT."""


class InvalidParameterValue(StatementError, DataError, sqlstate="22023"): ...


class BinCut(InvalidParameterValue):
    """A predicate cuts through a cell of its attribute: a bin, or the day of a timestamp. ``step``
    is that of the numbers between which it cuts, as SQL writes it."""

    step: str = ""


class InvalidLimit(StatementError, DataError, sqlstate="2201W"): ...


class InvalidOffset(StatementError, DataError, sqlstate="2201X"): ...


class InvalidNtile(StatementError, DataError, sqlstate="22014"): ...


class InvalidEscapeSequence(StatementError, DataError, sqlstate="22025"): ...


class InvalidTextRepresentation(StatementError, DataError, sqlstate="22P02"): ...


class InvalidEncoding(StatementError, DataError, sqlstate="22021"):
    """A text is not UTF-8, or contains a NUL."""


class InvalidDatetimeFormat(StatementError, DataError, sqlstate="22007"): ...


class DatetimeFieldOverflow(StatementError, DataError, sqlstate="22008"):
    """A date, time or interval is out of its type's range."""


class InvalidRegularExpression(StatementError, DataError, sqlstate="2201B"): ...


class InvalidTimeZoneDisplacement(StatementError, DataError, sqlstate="22009"): ...


class DivisionByZero(StatementError, DataError, sqlstate="22012"): ...


class NumericValueOutOfRange(StatementError, DataError, sqlstate="22003"): ...


class CardinalityViolation(StatementError, ProgrammingError, sqlstate="21000"):
    """A subquery used as an expression returned more than one row."""


class DataException(StatementError, DataError, sqlstate="22000"): ...


class InsufficientPrivilege(StatementError, ProgrammingError, sqlstate="42501"): ...


class VersionReplaced(StatementError, OperationalError, sqlstate="40001"):
    """A statement that is answered in several steps met another version after the first."""


class TransactionAborted(StatementError, InternalError, sqlstate="25P02"): ...


class StatementTooComplex(StatementError, OperationalError, sqlstate="54001"): ...


class RecordingLimitExceeded(StatementError, OperationalError, sqlstate="53400"):
    """The statement would record more for a table than its policy allows."""


class EvaluationFailed(StatementError, InternalError):
    """DuckDB failed internally."""


class QueryCanceled(StatementError, OperationalError, sqlstate="57014"): ...
