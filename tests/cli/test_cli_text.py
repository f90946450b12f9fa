"""Rows as text, numbers for JSON, and rounding to the private side."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from tallyveil.cli.error_messages import error_lines
from tallyveil.cli.text import aligned, down, plain, up, up_text
from tallyveil.errors import UndefinedColumn


def test_numbers_stand_to_the_right_and_words_to_the_left() -> None:
    assert aligned(["name", "n"], [["a", 5], [None, 123]]) == [
        " name |  n",
        " -----+----",
        " a    |   5",
        " NULL | 123",
        "(2 rows)",
    ]


def test_control_characters_do_not_reach_the_terminal() -> None:
    [_, _, line, _] = aligned(["x"], [["\x1b[2J"]])
    assert line == r" \x1b[2J"


def test_no_rows() -> None:
    assert aligned(["x"], [])[-1] == "(0 rows)"


def test_plain_values_are_json() -> None:
    values = [None, True, 3, 2.5, math.nan, math.inf, Decimal("1.5"), Decimal(7), dt.date.min, [1]]
    shown = json.loads(json.dumps(plain(values), allow_nan=False))
    assert shown == [None, True, 3, 2.5, "nan", "inf", 1.5, 7, "0001-01-01", [1]]


@given(st.fractions(min_value=0, max_value=1000))
def test_what_remains_is_rounded_down_and_what_is_spent_up(value: Fraction) -> None:
    exact = Fraction(round(down(value) * 10**6), 10**6)
    assert 0 <= value - exact < Fraction(1, 10**6)
    exact = Fraction(round(up(value) * 10**6), 10**6)
    assert 0 <= exact - value < Fraction(1, 10**6)


def test_the_caret_stands_below_its_character() -> None:
    sql = "SELECT 1,\n\tagee FROM person"
    error = UndefinedColumn("no agee", position=sql.index("agee") + 1)
    assert error_lines(error, sql) == [
        "ERROR 42703: no agee",
        "LINE 2: \tagee FROM person",
        "        \t^",
    ]


@given(st.fractions(0, 10**6))
def test_costs_in_words_are_never_too_small(x: Fraction) -> None:
    """Six significant digits would make 1.1053605 less than it is."""
    assert 0 <= Fraction(up_text(x)) - x <= Fraction(1, 10**6)
