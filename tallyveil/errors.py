"""Every error tallyveil raises, with the SQLSTATE a PostgreSQL client receives.

All are below `TallyveilError`; those about a statement, after which nothing was charged, are below
`StatementError`. What only PostgreSQL's protocol knows (a message malformed, a portal unknown) has
its errors in `tallyveil.proxy.errors`, under the same root.

The text of an error depends on the SQL, the policy and the ledger only, never on a record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar

__all__ = [
    "AmbiguousColumn",
    "BinCut",
    "BudgetExceeded",
    "CannotCoerce",
    "CardinalityViolation",
    "DataError",
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
    "positions_from",
]


class TallyveilError(Exception):
    """An error with the fields a PostgreSQL ErrorResponse carries.

    ``position`` counts characters of the statement from 1, as PostgreSQL does.
    """

    sqlstate: ClassVar[str] = "XX000"

    def __init_subclass__(cls, *, sqlstate: str | None = None) -> None:
        """Without an ``sqlstate`` of its own a class has that of the one above it."""
        cls.sqlstate = sqlstate or cls.sqlstate

    def __init__(
        self,
        message: str,
        *,
        detail: str | None = None,
        hint: str | None = None,
        position: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.hint = hint
        self.position = position

    def __str__(self) -> str:
        parts = [self.message]
        if self.detail:
            parts.append(f"DETAIL: {self.detail}")
        if self.hint:
            parts.append(f"HINT: {self.hint}")
        return "\n".join(parts)


@contextmanager
def positions_from(offset: int) -> Iterator[None]:
    """Errors' positions count from the whole text, in which a part starts at ``offset``."""
    try:
        yield
    except TallyveilError as error:
        if error.position is not None:
            error.position += offset
        raise


class PolicyError(TallyveilError, sqlstate="F0000"):
    """The policy is wrong. ``mistakes`` has one line each: key, value, what was expected."""

    def __init__(self, message: str, mistakes: Sequence[str] = ()) -> None:
        super().__init__(message, detail="\n".join(mistakes) or None)
        self.mistakes = tuple(mistakes)


class LedgerError(TallyveilError, sqlstate="58030"):
    """The ledger cannot be read or written."""


class LedgerMismatch(LedgerError, sqlstate="55000"):
    """The ledger belongs to another policy or table."""


class SourceError(TallyveilError, sqlstate="58030"):
    """The confidential source cannot be loaded."""


class OutputError(TallyveilError, sqlstate="58030"):
    """A file cannot be written."""


class ReceiptError(TallyveilError):
    """A release was tried without a valid receipt."""


class UnprovenPrivacy(TallyveilError):
    """A law is not as private as it claims, or no probability law at all. Nothing is drawn."""


class BudgetExceeded(TallyveilError, sqlstate="53400"):
    """The charge would take some cell over the table's budget, or an analyst over a share of it.
    Nothing was charged.

    ``requested`` and ``remaining`` are in ``unit``, epsilon or rho, per privacy unit. ``analyst``
    is whose share it is that ran out, None for the budget itself.
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


class StatementError(TallyveilError):
    """The statement is wrong or not answered. Nothing was charged.

    ``about`` is the column or table it complains of, where its position is still to be found.
    """

    about: str | None = None


class SQLSyntaxError(StatementError, sqlstate="42601"):
    """It does not parse."""


class UndefinedTable(StatementError, sqlstate="42P01"): ...


class UndefinedColumn(StatementError, sqlstate="42703"): ...


class AmbiguousColumn(StatementError, sqlstate="42702"): ...


class UndefinedFunction(StatementError, sqlstate="42883"): ...


class UndefinedParameter(StatementError, sqlstate="42P02"): ...


class UndefinedObject(StatementError, sqlstate="42704"): ...


class UndefinedSetting(UndefinedObject):
    """There is no session setting of that name."""


class DatatypeMismatch(StatementError, sqlstate="42804"): ...


class CannotCoerce(StatementError, sqlstate="42846"):
    """There is no cast from one type to the other."""


class InvalidCursorDefinition(StatementError, sqlstate="42P11"): ...


class InvalidColumnReference(StatementError, sqlstate="42P10"): ...


class DuplicateAlias(StatementError, sqlstate="42712"): ...


class GroupingError(StatementError, sqlstate="42803"): ...


class FeatureNotSupported(StatementError, sqlstate="0A000"):
    """It is understood and refused. The hint says what to ask instead."""


class InvalidParameterValue(StatementError, sqlstate="22023"): ...


class BinCut(InvalidParameterValue):
    """A predicate cuts through a cell of its attribute: a bin, or the day of a timestamp."""


class InvalidTextRepresentation(StatementError, sqlstate="22P02"): ...


class InvalidEncoding(StatementError, sqlstate="22021"):
    """A text that is not UTF-8, or has a NUL inside."""


class InvalidDatetimeFormat(StatementError, sqlstate="22007"): ...


class DatetimeFieldOverflow(StatementError, sqlstate="22008"):
    """A date, time or interval that its type cannot hold."""


class InvalidRegularExpression(StatementError, sqlstate="2201B"): ...


class InvalidTimeZoneDisplacement(StatementError, sqlstate="22009"): ...


class DivisionByZero(StatementError, sqlstate="22012"): ...


class NumericValueOutOfRange(StatementError, sqlstate="22003"): ...


class CardinalityViolation(StatementError, sqlstate="21000"):
    """A subquery gave more rows than one."""


class DataError(StatementError, sqlstate="22000"): ...


class InsufficientPrivilege(StatementError, sqlstate="42501"): ...


class TransactionAborted(StatementError, sqlstate="25P02"): ...


class StatementTooComplex(StatementError, sqlstate="54001"): ...


class RecordingLimitExceeded(StatementError, sqlstate="53400"):
    """More would be recorded of a table than its policy allows."""


class EvaluationFailed(StatementError):
    """DuckDB made a mistake of its own."""


class QueryCanceled(StatementError, sqlstate="57014"): ...
