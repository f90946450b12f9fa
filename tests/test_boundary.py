"""A true answer shows nothing; a receipt opens one answer, once, and cannot be forged."""

from __future__ import annotations

import copy
import json
import math
import operator
import pickle
import pprint
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from tallyveil.boundary import Receipt, TrueAnswer, issue_receipt, open_answer
from tallyveil.errors import ReceiptError

SECRET = 918273645
KEY = b"workload"

REFUSED: dict[str, Callable[[Any], object]] = {
    "format": lambda a: f"{a}",
    "format spec": lambda a: f"{a:d}",
    "padded": "{:>20}".format,
    "int": int,
    "float": float,
    "complex": complex,
    "index": operator.index,
    "bool": bool,
    "not": operator.not_,
    "len": len,
    "iter": iter,
    "list": list,
    "tuple": tuple,
    "sorted": sorted,
    "reversed": reversed,
    "unpack": lambda a: [*a],
    "item": lambda a: a[0],
    "contains": lambda a: SECRET in a,
    "equal": lambda a: a == SECRET,
    "equal to itself": lambda a: a == a,
    "not equal": lambda a: a != SECRET,
    "less": lambda a: a < SECRET,
    "greater or equal": lambda a: a >= SECRET,
    "max": lambda a: max(a, a),
    "hash": hash,
    "set": lambda a: {a},
    "add": lambda a: a + 1,
    "add to": lambda a: 1 + a,
    "sum": lambda a: sum([a]),
    "subtract": lambda a: a - a,
    "power": lambda a: a**2,
    "modulo": lambda a: a % 2,
    "abs": abs,
    "negative": operator.neg,
    "invert": operator.invert,
    "round": round,
    "floor": math.floor,
    "bytes": bytes,
    "numpy array": np.asarray,
    "numpy array of": lambda a: np.array([a], dtype=np.int64),
    "numpy sum": np.sum,
    "numpy add": lambda a: np.int64(1) + a,
    "pickle": pickle.dumps,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "json": json.dumps,
    "vars": vars,
    "set attribute": lambda a: setattr(a, "values", 1),
    "delete attribute": lambda a: delattr(a, "_unseal"),
}


def sealed() -> TrueAnswer:
    return TrueAnswer(KEY, [[SECRET, SECRET]])


@pytest.mark.parametrize("name", REFUSED)
def test_a_true_answer_refuses(name: str) -> None:
    with pytest.raises(TypeError) as caught:
        REFUSED[name](sealed())
    assert str(SECRET) not in str(caught.value)


@pytest.mark.parametrize("shown", [str, repr, pprint.pformat, "%s".__mod__, lambda a: f"{a!r}"])
def test_its_text_says_nothing(shown: Callable[[Any], str]) -> None:
    assert shown(sealed()) == "TrueAnswer(sealed)"


def test_a_receipt_opens_its_answer_once() -> None:
    receipt = issue_receipt(7, KEY, [2.0])
    assert open_answer(sealed(), receipt) == ((SECRET, SECRET),)
    with pytest.raises(ReceiptError, match="one unused receipt"):
        open_answer(sealed(), receipt)


@pytest.mark.parametrize(
    "receipt",
    [
        None,
        object(),
        issue_receipt(1, b"another workload", [2.0]),
        issue_receipt(1, KEY, []),
        issue_receipt(1, KEY, [1.0, 1.0]),
    ],
)
def test_nothing_else_opens_it(receipt: Any) -> None:
    with pytest.raises(ReceiptError):
        open_answer(sealed(), receipt)


def test_a_refused_receipt_is_still_good() -> None:
    receipt = issue_receipt(1, KEY, [2.0])
    with pytest.raises(ReceiptError):
        open_answer(TrueAnswer(b"another", [[1]]), receipt)
    assert open_answer(sealed(), receipt)


def test_an_imitation_is_no_receipt() -> None:
    class Forged(Receipt):
        def __init__(self) -> None:
            fields = {"charge_id": 1, "workload_key": KEY, "scales": (1.0,), "_spent": False}
            for name, value in fields.items():
                object.__setattr__(self, name, value)

    plain: Any = [[SECRET]]
    with pytest.raises(ReceiptError, match="one unused receipt"):
        open_answer(sealed(), Forged())
    with pytest.raises(ReceiptError, match="only the accountant"):
        Receipt(object(), 1, KEY, [1.0])
    with pytest.raises(ReceiptError, match="only a true answer"):
        open_answer(plain, issue_receipt(1, KEY, [1.0]))


@pytest.mark.parametrize("scale", [-1.0, -0.5, math.nan, math.inf, -math.inf])
def test_scales_are_finite_and_not_negative(scale: float) -> None:
    with pytest.raises(ReceiptError, match="finite and positive, or exactly 0"):
        issue_receipt(1, KEY, [1.0, scale])


def test_scale_zero_is_for_public_answers() -> None:
    assert issue_receipt(1, KEY, [0.0]).scales == (0.0,)


def test_a_receipt_does_not_change() -> None:
    scales = [2.0]
    receipt = issue_receipt(7, KEY, scales)
    scales[0] = 0.0
    assert receipt.scales == (2.0,)
    for name, value in (("scales", (0.0,)), ("workload_key", b"x"), ("_spent", False), ("new", 1)):
        with pytest.raises(ReceiptError, match="does not change"):
            setattr(receipt, name, value)
    with pytest.raises(ReceiptError, match="does not change"):
        del receipt.scales
    for doubled in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(ReceiptError, match="cannot be"):
            doubled(receipt)


def test_an_answer_keeps_its_values_from_later_changes() -> None:
    values = [[1, 2]]
    answer = TrueAnswer(KEY, values)
    values[0][0] = SECRET
    assert open_answer(answer, issue_receipt(1, KEY, [1.0])) == ((1, 2),)


def test_numpy_integers_become_plain_ones() -> None:
    answer = TrueAnswer(KEY, [list(np.array([2**60]))])
    ((value,),) = open_answer(answer, issue_receipt(1, KEY, [1.0]))
    assert type(value) is int


def test_a_traceback_with_local_variables_shows_no_value() -> None:
    answer, told = sealed(), ""
    wrong = issue_receipt(1, b"another", [1.0])
    for opens in (lambda: open_answer(answer, wrong), lambda: answer._unseal(None)):
        with pytest.raises(ReceiptError) as refused:
            opens()
        shown = traceback.TracebackException.from_exception(refused.value, capture_locals=True)
        told += "".join(shown.format())
    assert "another workload" in told
    assert "against a receipt" in told
    assert str(SECRET) not in told


def test_two_threads_share_one_receipt_badly() -> None:
    """Of many threads that race for one receipt exactly one gets the answer."""
    receipt, answer, barrier = issue_receipt(1, KEY, [1.0]), sealed(), threading.Barrier(8)

    def race(_: int) -> bool:
        barrier.wait()
        try:
            open_answer(answer, receipt)
        except ReceiptError:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        assert sorted(threads.map(race, range(8))) == [False] * 7 + [True]
