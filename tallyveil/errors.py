"""Every error tallyveil raises, with the SQLSTATE a PostgreSQL client receives.

::

    TallyveilError                         XX000  something is wrong in tallyveil itself
    ├── PolicyError                        F0000  the policy file; one message per mistake
    ├── LedgerError                        58030  the ledger cannot be read or written
    │   └── LedgerMismatch                 55000  it belongs to another policy or table
    ├── SourceError                        58030  the confidential source cannot be loaded
    ├── OutputError                        58030  a file cannot be written
    ├── StatementError                     (a class below says which)
    │   ├── SQLSyntaxError                 42601  it does not parse
    │   ├── UndefinedTable                 42P01
    │   ├── UndefinedColumn                42703
    │   ├── AmbiguousColumn                42702
    │   ├── UndefinedFunction              42883
    │   ├── UndefinedParameter             42P02
    │   ├── DatatypeMismatch               42804
    │   ├── CannotCoerce                   42846
    │   ├── GroupingError                  42803
    │   ├── InvalidCursorDefinition        42P11
    │   ├── FeatureNotSupported            0A000  understood and refused; says what to ask instead
    │   ├── InvalidParameterValue          22023
    │   │   └── BinCut                     22023  a predicate cuts through a declared bin
    │   ├── InvalidTextRepresentation      22P02
    │   ├── InvalidEncoding                22021  not UTF-8, or a NUL inside a text
    │   ├── InvalidDatetimeFormat          22007
    │   ├── DatetimeFieldOverflow          22008
    │   ├── DivisionByZero                 22012
    │   ├── NumericValueOutOfRange         22003
    │   ├── CardinalityViolation           21000  a subquery gave more rows than one
    │   ├── DataError                      22000
    │   ├── UndefinedObject                42704
    │   │   └── UndefinedSetting           42704
    │   ├── InsufficientPrivilege          42501
    │   ├── TransactionAborted             25P02
    │   ├── StatementTooComplex            54001
    │   ├── RecordingLimitExceeded         53400  the ledger has no room for the answers
    │   ├── EvaluationFailed               XX000  DuckDB made a mistake of its own
    │   └── QueryCanceled                  57014
    ├── BudgetExceeded                     53400  carries what remains
    ├── ReceiptError                       XX000  a release was tried without a valid receipt
    └── UnprovenPrivacy                    XX000  a mechanism's own proof of privacy failed

What only PostgreSQL's protocol knows (a message malformed, a portal unknown) has its errors in
`tallyveil.proxy.errors`, under the same root.

The text of an error depends on the SQL, the policy and the ledger only, never on a record.
"""

from __future__ import annotations

from collections.abc import Sequence
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


class PolicyError(TallyveilError, sqlstate="F0000"):
    """The policy is wrong. ``mistakes`` has one line each: key, value, what was expected."""

    def __init__(self, message: str, mistakes: Sequence[str] = ()) -> None:
        super().__init__(message, detail="\n".join(mistakes) or None)
        self.mistakes = tuple(mistakes)


class LedgerError(TallyveilError, sqlstate="58030"): ...


class LedgerMismatch(LedgerError, sqlstate="55000"): ...


class SourceError(TallyveilError, sqlstate="58030"): ...


class OutputError(TallyveilError, sqlstate="58030"): ...


class ReceiptError(TallyveilError, sqlstate="XX000"): ...


class UnprovenPrivacy(TallyveilError, sqlstate="XX000"):
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


class SQLSyntaxError(StatementError, sqlstate="42601"): ...


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


class FeatureNotSupported(StatementError, sqlstate="0A000"): ...


class InvalidParameterValue(StatementError, sqlstate="22023"): ...


class BinCut(InvalidParameterValue):
    """A predicate cuts through a cell of its attribute: a bin, or the day of a timestamp."""


class InvalidTextRepresentation(StatementError, sqlstate="22P02"): ...


class InvalidEncoding(StatementError, sqlstate="22021"): ...


class InvalidDatetimeFormat(StatementError, sqlstate="22007"): ...


class DatetimeFieldOverflow(StatementError, sqlstate="22008"):
    """A date, time or interval that its type cannot hold."""


class InvalidRegularExpression(StatementError, sqlstate="2201B"): ...


class InvalidTimeZoneDisplacement(StatementError, sqlstate="22009"): ...


class DivisionByZero(StatementError, sqlstate="22012"): ...


class NumericValueOutOfRange(StatementError, sqlstate="22003"): ...


class CardinalityViolation(StatementError, sqlstate="21000"): ...


class DataError(StatementError, sqlstate="22000"): ...


class InsufficientPrivilege(StatementError, sqlstate="42501"): ...


class TransactionAborted(StatementError, sqlstate="25P02"): ...


class StatementTooComplex(StatementError, sqlstate="54001"): ...


class RecordingLimitExceeded(StatementError, sqlstate="53400"):
    """More would be recorded of a table than its policy allows."""


class EvaluationFailed(StatementError, sqlstate="XX000"): ...


class QueryCanceled(StatementError, sqlstate="57014"): ...
