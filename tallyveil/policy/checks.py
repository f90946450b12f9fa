"""Checks of single values in a policy. Each returns the value as the policy stores it.

A failed check raises `wrong`, whose text completes "key = value: …". The checks also accept
Python's numbers and dates, so that a policy written in code has the same values as a file. A TOML
float arrives as a Decimal, which preserves its digits.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict
from pydantic_core import PydanticCustomError

from tallyveil.policy.names import is_table_reference
from tallyveil.policy.source_kinds import SUPPORTED, source_kind

__all__ = [
    "MAX_CELLS",
    "MAX_COUNT",
    "Declaration",
    "acknowledged",
    "attribute_names",
    "confidence",
    "data",
    "delta",
    "epsilon",
    "exact_number",
    "half_width",
    "is_integer",
    "largest_count",
    "least_cost",
    "ledger",
    "listed",
    "max_rows",
    "mechanism",
    "mechanisms",
    "min_count",
    "origin",
    "path",
    "positive",
    "public_column",
    "query",
    "rho",
    "source_url",
    "table_names",
    "whole_of",
    "wrong",
]

T = TypeVar("T")

MAX_CELLS = 1_000_000
# No mechanism supports a larger range.
MAX_COUNT = 500
_TEXT_DIGITS = 400  # numbers with smaller exponents are refused: they could exhaust memory


class Declaration(BaseModel):
    """The base of models of a policy's tables of keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def wrong(expected: str) -> PydanticCustomError:
    """Return the error whose text completes "key = value: …"."""
    return PydanticCustomError("mistake", "{expected}", {"expected": expected})


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


def _number(
    fits: Callable[[Fraction], bool], expected: str, stored: Callable[[Fraction], T]
) -> Callable[[Any], T]:
    """Return a check for a number whose exact value ``fits``; ``stored`` converts it."""

    def check(value: Any) -> T:
        exact = exact_number(value)
        if exact is None or not fits(exact):
            raise wrong(f"expected {expected}")
        return stored(exact)

    return check


def _between(least: Fraction, most: Fraction, expected: str) -> Callable[[Any], Fraction]:
    return _number(lambda exact: least <= exact <= most, expected, Fraction)


def positive(most: int, expected: str) -> Callable[[Any], float]:
    """Return a check for a number above 0 and up to ``most``."""
    return _number(lambda exact: 0 < exact <= most, expected, float)


def whole(most: int, expected: str) -> Callable[[Any], int]:
    """Return a check for a whole number from 1 to ``most``."""

    def check(value: Any) -> int:
        if not is_integer(value) or not 1 <= value <= most:
            raise wrong(f"expected {expected}")
        return int(value)

    return check


def whole_of(unit: str, most: int) -> Callable[[Any], int]:
    """Return a check for a whole number of a ``unit``, from 1 to ``most``."""
    return whole(most, f"a whole number of {unit} from 1 to {most:,}")


_LOSS = Fraction(1, 10**12), Fraction(10**6)
epsilon = _between(*_LOSS, "a number ε with 1e-12 <= ε <= 1e6, such as 0.1")
rho = _between(*_LOSS, "a number ρ with 1e-12 <= ρ <= 1e6, such as 0.1")
delta = _between(
    Fraction(1, 10**100),
    Fraction(1, 1000),
    "a number δ with 1e-100 <= δ <= 0.001, far less than one in the number of privacy units, such "
    "as 1e-9",
)
least_cost = _between(
    Fraction(0),
    Fraction(1, 10),
    "a share of the budget from 0 (no least cost) to 0.1, such as 1e-6",
)
largest_count = whole(
    MAX_COUNT,
    f"a whole number from 1 to {MAX_COUNT}; larger counts gain nothing over noise without a range",
)
min_count = whole(10**15, "a whole number of records from 1 on")
max_rows = whole_of("rows", MAX_CELLS)
half_width = positive(10**15, "a positive number: how far from the truth an answer may lie")

confidence = _number(
    lambda exact: 0 < float(exact) < 1, "a number strictly between 0 and 1, such as 0.95", float
)


def mechanism(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*(\([^()]*\))?", value):
        raise wrong('expected the name of a mechanism, such as "laplace"')
    return value


def mechanisms(value: Any) -> tuple[str, ...]:
    expected = 'a list of names of mechanisms, such as ["laplace", "gaussian"]'
    names = listed(value, expected)
    if not names or "auto" in names:
        raise wrong(f"expected {expected}")
    return tuple(mechanism(name) for name in names)


def _texts(expected: str) -> Callable[[Any], tuple[str, ...]]:
    """Return a check for a list of texts, none of them empty."""

    def check(value: Any) -> tuple[str, ...]:
        texts = listed(value, expected)
        if not all(isinstance(text, str) and text for text in texts):
            raise wrong(f"expected {expected}")
        return tuple(texts)

    return check


acknowledged = _texts("a list of counts in quotes, as tallyveil check prints them")
table_names = _texts('a list of tables such as ["person"]')
attribute_names = _texts('a list of attributes such as ["household"]')


def public_column(value: Any) -> tuple[str, str]:
    """Split ``relation.column`` into its parts."""
    parts = value.split(".") if isinstance(value, str) else []
    if len(parts) != 2 or not all(parts):
        raise wrong('expected a public table and its column, such as "census.persons"')
    return parts[0], parts[1]


def data(value: Any) -> str:
    if value == "fixed":
        return "fixed"
    raise wrong(
        'expected "fixed": data that grows or is replaced is not supported yet. Declare each'
        " version as a table with a ledger of its own, and count their budgets together"
    )


def path(value: Any) -> str:
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise wrong("expected a path in quotes")
    return text


def ledger(value: Any) -> tuple[str | None, bool]:
    """The ledger's path, and whether it must exist; the path alone, or a table of both."""
    declared = value if isinstance(value, dict) else {"path": value}
    must_exist = declared.get("must_exist", False)
    known = declared and declared.keys() <= {"path", "must_exist"}
    if not known or not isinstance(must_exist, bool):
        raise wrong('expected a path, or { path = "people.ledger.sqlite", must_exist = true }')
    return (_ledger_path(declared["path"]) if "path" in declared else None), must_exist


def _ledger_path(value: Any) -> str:
    text = path(value)
    # In memory, each process and each start would have a budget of its own.
    if "://" in text or Path(text.strip()).name == ":memory:":
        raise wrong("expected the path of an SQLite file")
    return text


def source_url(value: Any) -> str:
    url = path(value)
    if source_kind(url) is None:
        raise wrong(
            f"expected {SUPPORTED}. For other data, attach it to a DuckDB connection, leave out "
            "[source] and pass the connection to connect() as source"
        )
    return url


def origin(text: str) -> str:
    """Check the name of a table or view, or a query."""
    stripped = _statement(text)
    if _first_word(stripped) in ("SELECT", "WITH", "FROM") or is_table_reference(stripped):
        return stripped
    raise wrong(
        "expected the name of a table or view (put parts other than plain words in double quotes), "
        "or a SELECT"
    )


def query(text: str) -> str:
    stripped = _statement(text)
    if _first_word(stripped) in ("SELECT", "WITH") or stripped.startswith("("):
        return stripped
    raise wrong("expected a SELECT")


def _statement(text: str) -> str:
    """Return the statement without surrounding space and a final semicolon."""
    return text.strip().removesuffix(";").rstrip()


def _first_word(text: str) -> str:
    return text.split(None, 1)[0].upper() if text else ""


def listed(value: Any, expected: str) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise wrong(f"expected {expected}")
    return list(value)
