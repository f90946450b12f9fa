"""Types of single values in a policy, with their checks and as the policy stores them.

A failed check raises `declaration.wrong`, whose text completes "key = value: …". The checks also
accept Python's numbers and dates, so that a policy written in code has the same values as a file. A
TOML float arrives as a Decimal, which preserves its digits.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeAlias

from pydantic import AfterValidator, PlainValidator, ValidationInfo

from tallyveil.policy.declaration import wrong
from tallyveil.policy.source_kinds import FORMATS
from tallyveil.policy.sql_names import is_table_reference

__all__ = [
    "MAX_CELLS",
    "MAX_COUNT",
    "AttributeNames",
    "Confidence",
    "CountTexts",
    "Delta",
    "Epsilon",
    "FilePath",
    "HalfWidth",
    "LargestCount",
    "LeastCost",
    "LedgerFile",
    "LedgerPath",
    "MaxRows",
    "MechanismName",
    "MechanismNames",
    "MinCount",
    "Origin",
    "PolicyPlace",
    "PublicColumn",
    "Query",
    "Rho",
    "SourceFormat",
    "SourceUrl",
    "TableColumn",
    "TableNames",
    "exact_number",
    "is_integer",
    "listed",
    "positive",
    "whole_of",
]

MAX_CELLS = 1_000_000
# No mechanism supports a larger range.
MAX_COUNT = 500
_TEXT_DIGITS = 400  # numbers with smaller exponents are refused: they could exhaust memory


def is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def exact_number(value: Any) -> Fraction | None:
    """Return the exact value of the number's decimal text, or None if it is not a number within the
    range of floats."""
    if isinstance(value, Fraction):
        return value
    if isinstance(value, float) or is_integer(value):
        value = Decimal(repr(value) if isinstance(value, float) else value)
    if not isinstance(value, Decimal) or not value.is_finite():
        return None
    if value.copy_abs() > sys.float_info.max or (value and value.adjusted() < -_TEXT_DIGITS):
        return None
    return Fraction(value)


def listed(value: Any, expected: str) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise wrong(f"expected {expected}")
    return list(value)


def _number(
    fits: Callable[[Fraction], bool], expected: str, stored: Callable[[Fraction], Any]
) -> PlainValidator:
    """Return a check for a number whose exact value ``fits``; ``stored`` converts it."""

    def check(value: Any) -> Any:
        exact = exact_number(value)
        if exact is None or not fits(exact):
            raise wrong(f"expected {expected}")
        return stored(exact)

    return PlainValidator(check)


def _between(least: Fraction, most: Fraction, expected: str) -> PlainValidator:
    return _number(lambda exact: least <= exact <= most, expected, Fraction)


def positive(most: int, expected: str) -> PlainValidator:
    """Return a check for a number above 0 and up to ``most``, stored as a float."""
    return _number(lambda exact: 0 < exact <= most, expected, float)


def _whole(most: int, expected: str) -> PlainValidator:
    """Return a check for a whole number from 1 to ``most``."""

    def check(value: Any) -> int:
        if not is_integer(value) or not 1 <= value <= most:
            raise wrong(f"expected {expected}")
        return int(value)

    return PlainValidator(check)


def whole_of(unit: str, most: int) -> PlainValidator:
    """Return a check for a whole number of a ``unit``, from 1 to ``most``."""
    return _whole(most, f"a whole number of {unit} from 1 to {most:,}")


_LOSS = Fraction(1, 10**12), Fraction(10**6)
Epsilon: TypeAlias = Annotated[
    Fraction, _between(*_LOSS, "a number ε with 1e-12 <= ε <= 1e6, such as 0.1")
]
Rho: TypeAlias = Annotated[
    Fraction, _between(*_LOSS, "a number ρ with 1e-12 <= ρ <= 1e6, such as 0.1")
]
Delta: TypeAlias = Annotated[
    Fraction,
    _between(
        Fraction(1, 10**100),
        Fraction(1, 1000),
        "a number δ with 1e-100 <= δ <= 0.001, far less than one in the number of privacy units,"
        " such as 1e-9",
    ),
]
LeastCost: TypeAlias = Annotated[
    Fraction,
    _between(
        Fraction(0),
        Fraction(1, 10),
        "a share of the budget from 0 (no least cost) to 0.1, such as 1e-6",
    ),
]
LargestCount: TypeAlias = Annotated[
    int,
    _whole(
        MAX_COUNT,
        f"a whole number from 1 to {MAX_COUNT}; larger counts gain nothing over noise without a"
        " range",
    ),
]
MinCount: TypeAlias = Annotated[int, _whole(10**15, "a whole number of records from 1 on")]
MaxRows: TypeAlias = Annotated[int, whole_of("rows", MAX_CELLS)]
HalfWidth: TypeAlias = Annotated[
    float, positive(10**15, "a positive number: how far from the truth an answer may lie")
]
Confidence: TypeAlias = Annotated[
    float,
    _number(
        lambda exact: 0 < float(exact) < 1, "a number strictly between 0 and 1, such as 0.95", float
    ),
]


def _mechanism(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*(\([^()]*\))?", value):
        raise wrong('expected the name of a mechanism, such as "laplace"')
    return value


def _mechanisms(value: Any) -> tuple[str, ...]:
    expected = 'a list of names of mechanisms, such as ["laplace", "gaussian"]'
    names = listed(value, expected)
    if not names or "auto" in names:
        raise wrong(f"expected {expected}")
    return tuple(_mechanism(name) for name in names)


MechanismName: TypeAlias = Annotated[str, PlainValidator(_mechanism)]
MechanismNames: TypeAlias = Annotated[tuple[str, ...], PlainValidator(_mechanisms)]


def _texts(expected: str) -> PlainValidator:
    """Return a check for a list of texts, none of them empty."""

    def check(value: Any) -> tuple[str, ...]:
        texts = listed(value, expected)
        if not all(isinstance(text, str) and text for text in texts):
            raise wrong(f"expected {expected}")
        return tuple(texts)

    return PlainValidator(check)


CountTexts: TypeAlias = Annotated[
    tuple[str, ...], _texts("a list of counts in quotes, as tallyveil check prints them")
]
TableNames: TypeAlias = Annotated[tuple[str, ...], _texts('a list of tables such as ["person"]')]
AttributeNames: TypeAlias = Annotated[
    tuple[str, ...], _texts('a list of attributes such as ["household"]')
]


def _public_column(value: Any) -> tuple[str, str]:
    """Split ``relation.column`` into its parts."""
    parts = value.split(".") if isinstance(value, str) else []
    if len(parts) != 2 or not all(parts):
        raise wrong('expected a public table and its column, such as "census.persons"')
    return parts[0], parts[1]


def _table_column(value: Any) -> tuple[str, str]:
    """Split ``table.column`` at the first point into its parts."""
    table, _, column = value.partition(".") if isinstance(value, str) else ("", "", "")
    if not table or not column:
        raise wrong('expected a protected table and its column, such as "person.pid"')
    return table, column


PublicColumn: TypeAlias = Annotated[tuple[str, str], PlainValidator(_public_column)]
TableColumn: TypeAlias = Annotated[tuple[str, str], PlainValidator(_table_column)]


class PolicyPlace(NamedTuple):
    """The context of a policy's validation: the ``folder`` to which its paths are relative, the
    ledger if it names none, and the policy's file, if any."""

    folder: Path = Path()
    ledger: Path = Path("tallyveil.ledger.sqlite")
    file: Path | None = None

    @classmethod
    def of(cls, info: ValidationInfo) -> PolicyPlace:
        return cls() if info.context is None else cls(*info.context)


class LedgerFile(NamedTuple):
    """The ledger. A missing one is made, unless it ``must_exist``."""

    path: Path
    must_exist: bool = False


def _path(value: Any) -> str:
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise wrong("expected a path in quotes")
    return text


def _file(value: Any, info: ValidationInfo) -> Path:
    return PolicyPlace.of(info).folder / _path(value)


def _ledger(value: Any, info: ValidationInfo) -> LedgerFile:
    """Check the ledger's path; or a table with it, and whether it must exist."""
    declared = value if isinstance(value, dict) else {"path": value}
    must_exist = declared.get("must_exist", False)
    known = declared and declared.keys() <= {"path", "must_exist"}
    if not known or not isinstance(must_exist, bool):
        raise wrong('expected a path, or { path = "people.ledger.sqlite", must_exist = true }')
    if "path" not in declared:
        return LedgerFile(PolicyPlace.of(info).ledger, must_exist)
    text = _path(declared["path"])
    # In memory, each process and each start would have a budget of its own.
    if "://" in text or Path(text.strip()).name == ":memory:":
        raise wrong("expected the path of an SQLite file")
    return LedgerFile(PolicyPlace.of(info).folder / text, must_exist)


def _format(declared: object) -> str:
    if isinstance(declared, str) and declared in FORMATS:
        return declared
    raise wrong(f"expected one of {', '.join(FORMATS)}")


FilePath: TypeAlias = Annotated[Path, PlainValidator(_file)]
LedgerPath: TypeAlias = Annotated[LedgerFile, PlainValidator(_ledger)]
SourceUrl: TypeAlias = Annotated[str, PlainValidator(_path)]
SourceFormat: TypeAlias = Annotated[str, PlainValidator(_format)]


def _origin(text: str) -> str:
    """Check the name of a table or view, or a query."""
    stripped = _statement(text)
    if _first_word(stripped) in ("SELECT", "WITH", "FROM") or is_table_reference(stripped):
        return stripped
    raise wrong(
        "expected the name of a table or view (put parts other than plain words in double quotes), "
        "or a SELECT"
    )


def _query(text: str) -> str:
    stripped = _statement(text)
    if _first_word(stripped) in ("SELECT", "WITH") or stripped.startswith("("):
        return stripped
    raise wrong("expected a SELECT")


def _statement(text: str) -> str:
    """Return the statement without surrounding space and a final semicolon."""
    return text.strip().removesuffix(";").rstrip()


def _first_word(text: str) -> str:
    return text.split(None, 1)[0].upper() if text else ""


Origin: TypeAlias = Annotated[str, AfterValidator(_origin)]
Query: TypeAlias = Annotated[str, AfterValidator(_query)]
