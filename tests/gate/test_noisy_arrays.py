"""Answers as arrays are what exact arithmetic, row by row, makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tallyveil import deadline
from tallyveil.errors import NumericValueOutOfRange, QueryCanceled
from tallyveil.gate.noisy_arrays import answer_array

KINDS = [
    pa.int64(),
    pa.float64(),
    pa.decimal128(38, 0),
    pa.decimal128(38, 3),
    pa.decimal128(38, 18),
]

near = [0, 1, 2**53, 2**62, 2**63, 2**64, 10**19, 10**20, 10**38]
steps = (
    st.none()
    | st.integers(-1000, 1000)
    | st.integers(-(2**70), 2**70)
    | st.builds(
        lambda n, d, sign: sign * (n + d),
        st.sampled_from(near),
        st.integers(-2, 2),
        st.sampled_from([1, -1]),
    )
)
multipliers = (
    st.just(Fraction(1))
    | st.fractions(min_value=Fraction(1, 10**6), max_value=10**4, max_denominator=10**6)
    | st.builds(Fraction, st.integers(1, 2**70), st.integers(1, 2**70))
)


def by_hand(
    values: Sequence[int | None], multiplier: Fraction, kind: pa.DataType, least: int | None
) -> list[Any] | None:
    """In fractions and texts; None where a value does not fit."""
    found: list[Any] = []
    for v in values:
        if v is None:
            found.append(None)
            continue
        exact = multiplier * (v if least is None else max(v, least))
        if pa.types.is_floating(kind):
            try:
                found.append(exact.numerator / exact.denominator)
            except OverflowError:
                return None
            continue
        scale = kind.scale if pa.types.is_decimal(kind) else 0
        units = abs(exact.numerator) * 10**scale // exact.denominator
        units = -units if exact < 0 else units
        if pa.types.is_decimal(kind):
            if abs(units) >= 10**38:
                return None
            found.append(Decimal(f"{units}e-{scale}", Context(prec=50)))
        elif not -(2**63) <= units < 2**63:
            return None
        else:
            found.append(units)
    return found


@pytest.mark.parametrize("kind", KINDS, ids=str)
@given(values=st.lists(steps, max_size=12), multiplier=multipliers, least=st.none() | st.just(0))
@example(values=[2**53 + 1, -(2**53) - 1], multiplier=Fraction(1), least=None)
@example(values=[2**63 - 1, -(2**63)], multiplier=Fraction(1), least=None)
@example(values=[None], multiplier=Fraction(1, 3), least=0)
@example(values=[-7, -1, None, 7], multiplier=Fraction(1, 2), least=None)
@example(values=[], multiplier=Fraction(1), least=None)
def test_arrays_hold_what_fractions_give(
    kind: pa.DataType, values: list[int | None], multiplier: Fraction, least: int | None
) -> None:
    expected = by_hand(values, multiplier, kind, least)
    if expected is None:
        with pytest.raises(NumericValueOutOfRange, match="out of range"):
            answer_array(values, multiplier, kind, least)
        return
    array = answer_array(values, multiplier, kind, least)
    array.validate(full=True)
    assert array.type == kind
    assert array.to_pylist() == expected


def test_what_is_worked_out_row_by_row_can_be_stopped() -> None:
    cancelled = deadline.Deadline(60, cancelled=lambda: True)
    with cancelled.entered(), pytest.raises(QueryCanceled):
        answer_array([2**64] * 10, Fraction(1), pa.float64())
