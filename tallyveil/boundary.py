"""The confidential boundary: a `TrueAnswer` meets a `Receipt`, or nothing is released.

The cube wraps Wx in a `TrueAnswer`. The accountant issues a `Receipt` once a charge is written, in
a transaction that it commits whatever happens to the answer, and before any answer leaves it.
`open_answer` is the one way to the value; mechanisms call it and add the noise the receipt was
issued for. A receipt opens one answer, once, and only the answer to the workload it paid for.

Python cannot hide an object from code in its own process; this boundary stops mistakes (a log
line, a comparison, a pickle, a traceback that shows local variables, a release before the
charge), not a hostile library.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

from tallyveil.errors import ReceiptError
from tallyveil.locks import Rank, ranked_lock

__all__ = ["Receipt", "TrueAnswer", "issue_receipt", "open_answer"]

_ISSUER: Final = object()
_OPENER: Final = object()
_lock = ranked_lock(Rank.LEAF)


class Receipt:
    """Proof that the charge for one workload at given noise scales is written for good.

    ``charge_id`` is the ledger's number of the charge, ``workload_key`` the digest of what was
    paid for, ``scales`` the noise scale b of each column in units of its integer lattice: finite
    and positive, or exactly 0 where the answer is public. A receipt does not change, but for
    being used once.
    """

    __slots__ = ("_spent", "charge_id", "scales", "workload_key")

    charge_id: int
    workload_key: bytes
    scales: tuple[float, ...]
    _spent: bool

    def __init__(
        self,
        issuer: object,
        charge_id: int,
        workload_key: bytes,
        scales: Sequence[float],
    ) -> None:
        if issuer is not _ISSUER:
            raise ReceiptError("only the accountant issues receipts")
        if not all(scale >= 0 and math.isfinite(scale) for scale in scales):
            raise ReceiptError("a noise scale is finite and positive, or exactly 0")
        for name, value in (
            ("charge_id", charge_id),
            ("workload_key", bytes(workload_key)),
            ("scales", tuple(scales)),
            ("_spent", False),
        ):
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"Receipt(charge {self.charge_id}, scales {self.scales})"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise ReceiptError("a receipt does not change")

    def __delattr__(self, name: str) -> NoReturn:
        raise ReceiptError("a receipt does not change")

    def __copy__(self) -> NoReturn:
        raise ReceiptError("a receipt cannot be copied")

    def __deepcopy__(self, memo: object) -> NoReturn:
        raise ReceiptError("a receipt cannot be copied")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise ReceiptError("a receipt cannot be pickled")


def issue_receipt(charge_id: int, workload_key: bytes, scales: Sequence[float]) -> Receipt:
    """For the accountant alone, after the charge is written.

    Raises ReceiptError for a scale that is negative, infinite or not a number.
    """
    return Receipt(_ISSUER, charge_id, workload_key, scales)


class _Sealed:
    """Values in a wrapper that shows an address where a traceback shows local variables."""

    __slots__ = ("values",)

    def __init__(self, values: Sequence[Sequence[int]]) -> None:
        self.values = tuple(tuple(int(v) for v in column) for column in values)


def _opaque(name: str) -> Any:
    def refuse(self: object, *_: object, **__: object) -> NoReturn:
        raise TypeError(f"a TrueAnswer is confidential and has no {name}")

    return refuse


class TrueAnswer:
    """Wx, sealed. ``values[c][i]`` is the exact integer answer of row i of column c."""

    __slots__ = ("_columns", "_unseal", "_workload_key")

    _columns: int
    _unseal: Callable[[object], tuple[tuple[int, ...], ...]]
    _workload_key: bytes

    def __init__(self, workload_key: bytes, values: Sequence[Sequence[int]]) -> None:
        sealed = _Sealed(values)

        def unseal(opener: object) -> tuple[tuple[int, ...], ...]:
            if opener is not _OPENER:
                raise ReceiptError("a true answer opens against a receipt only")
            return sealed.values

        object.__setattr__(self, "_workload_key", workload_key)
        object.__setattr__(self, "_columns", len(sealed.values))
        object.__setattr__(self, "_unseal", unseal)

    def __repr__(self) -> str:
        return "TrueAnswer(sealed)"

    __str__ = __repr__

    __setattr__ = _opaque("settable attributes")
    __delattr__ = _opaque("deletable attributes")
    __format__ = _opaque("formatted form")
    __eq__ = _opaque("comparison")
    __ne__ = _opaque("comparison")
    __lt__ = _opaque("order")
    __le__ = _opaque("order")
    __gt__ = _opaque("order")
    __ge__ = _opaque("order")
    __hash__ = _opaque("hash")
    __bool__ = _opaque("truth value")
    __int__ = _opaque("integer value")
    __float__ = _opaque("float value")
    __complex__ = _opaque("complex value")
    __index__ = _opaque("index value")
    __bytes__ = _opaque("bytes")
    __len__ = _opaque("length")
    __iter__ = _opaque("iterator")
    __reversed__ = _opaque("iterator")
    __getitem__ = _opaque("items")
    __contains__ = _opaque("members")
    __add__ = __radd__ = __sub__ = __rsub__ = _opaque("arithmetic")
    __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _opaque("arithmetic")
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _opaque("arithmetic")
    __divmod__ = __rdivmod__ = __pow__ = __rpow__ = _opaque("arithmetic")
    __matmul__ = __rmatmul__ = _opaque("arithmetic")
    __neg__ = __pos__ = __abs__ = __invert__ = _opaque("arithmetic")
    __round__ = __trunc__ = __floor__ = __ceil__ = _opaque("rounding")
    __copy__ = _opaque("copy")
    __deepcopy__ = _opaque("copy")
    __reduce__ = _opaque("pickled form")
    __reduce_ex__ = _opaque("pickled form")
    __getstate__ = _opaque("state")
    __array__ = _opaque("array")


def open_answer(answer: TrueAnswer, receipt: Receipt) -> tuple[tuple[int, ...], ...]:
    """The exact values, for a mechanism that adds noise at ``receipt.scales`` to them.

    Raises ReceiptError if the receipt is used, or was issued for another workload.
    """
    _claim(answer, receipt)
    return answer._unseal(_OPENER)


def _claim(answer: TrueAnswer, receipt: Receipt) -> None:
    """Use up the receipt for the answer, or raise. Two threads cannot both claim it."""
    if type(answer) is not TrueAnswer:
        raise ReceiptError("only a true answer is opened")
    with _lock:
        if type(receipt) is not Receipt or receipt._spent:
            raise ReceiptError("a true answer opens against one unused receipt")
        if receipt.workload_key != answer._workload_key:
            raise ReceiptError("the receipt was issued for another workload")
        if len(receipt.scales) != answer._columns:
            raise ReceiptError("the receipt has another number of noise scales")
        object.__setattr__(receipt, "_spent", True)
