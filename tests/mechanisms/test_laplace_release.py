"""Releases: the right law, the right accounting, and only against a receipt."""

from __future__ import annotations

import pytest

from tallyveil.boundary import TrueAnswer, issue_receipt
from tallyveil.errors import InvalidParameterValue, ReceiptError
from tallyveil.mechanisms import DiscreteLaplace, mechanism, mechanism_names
from tallyveil.mechanisms.registry import register

KEY = b"key"
LAPLACE = mechanism("laplace")


def release(values: list[list[int]], scales: list[float]) -> tuple[tuple[int, ...], ...]:
    return LAPLACE.release(TrueAnswer(KEY, values), issue_receipt(1, KEY, scales))


def test_nothing_saturates_near_the_end_of_the_integers() -> None:
    edge = 2**63 - 1
    (values,) = release([[edge] * 200], [20.0])
    assert max(values) > edge
    assert min(values) < edge


def test_scale_zero_is_exact_and_others_are_not() -> None:
    exact, noisy = release([[5, -7, 2**70], [0] * 200], [0.0, 3.0])
    assert exact == (5, -7, 2**70)
    assert any(noisy)
    assert all(type(value) is int for value in noisy)


def test_empty_columns_stay_empty() -> None:
    assert release([[], [1]], [2.0, 0.0]) == ((), (1,))


def test_a_receipt_is_needed_and_used_up() -> None:
    answer = TrueAnswer(KEY, [[1]])
    receipt = issue_receipt(1, KEY, [1.0])
    LAPLACE.release(answer, receipt)
    with pytest.raises(ReceiptError):
        LAPLACE.release(answer, receipt)
    with pytest.raises(ReceiptError):
        LAPLACE.release(answer, issue_receipt(2, b"another", [1.0]))


@pytest.mark.parametrize("scale", [5e-324, 2.0**53, 1e300])
def test_a_wrong_scale_leaves_the_answer_sealed(scale: float) -> None:
    answer, receipt = TrueAnswer(KEY, [[1]]), issue_receipt(1, KEY, [scale])
    with pytest.raises(InvalidParameterValue):
        LAPLACE.release(answer, receipt)


def test_its_law_is_the_one_inference_uses() -> None:
    assert LAPLACE.law(20.0).variance == pytest.approx(800 - 1 / 6, rel=1e-6)
    assert LAPLACE.law(20.0).half_width(0.95) == 60
    assert 20.0 <= LAPLACE.scale_for_half_width(60, 0.95) < 20.4
    assert LAPLACE.scale_for_half_width(2**53 - 1, 0.5) == 2.0**52


def test_families_are_known_by_name() -> None:
    assert "laplace" in mechanism_names()
    with pytest.raises(InvalidParameterValue, match="gumbel") as refused:
        mechanism("gumbel")
    assert "laplace" in str(refused.value)
    with pytest.raises(ValueError, match="already"):
        register(DiscreteLaplace())
