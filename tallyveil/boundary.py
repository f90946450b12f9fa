"""The confidential boundary: a `TrueAnswer` opens only against a `Receipt`.

The cube wraps Wx in a `TrueAnswer`. The accountant issues a `Receipt` once a charge is written. It
commits that transaction whatever happens to the answer, and before any answer leaves it.
Only `open_answer` returns the value; mechanisms call it and add the noise that the receipt was
issued for. A receipt opens one answer, once, and only the answer to the workload it was charged
for.

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

__all__ = ["Receipt", "TrueAnswer", "issue_receipt", "open_answer", "refusing"]

_ISSUER: Final = object()
_OPENER: Final = object()
_lock = ranked_lock(Rank.LEAF)


def refusing(error: type[Exception], message: str) -> Any:
    """Return a method that raises ``error(message)``, whatever its arguments."""

    def refuse(self: object, *_: object, **__: object) -> NoReturn:
        raise error(message)

    return refuse


class Receipt:
    """Proof that the charge for one workload at given noise scales is written and stays charged.

    ``charge_id`` is the ledger's number of the charge, ``workload_key`` the digest of the charged
    workload, ``scales`` the noise scale b of each column in units of its integer lattice: finite
    and positive, or exactly 0 where the answer is public. A receipt is immutable, except that
    opening an answer uses it up.
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
            raise ReceiptError("a noise scale must be finite and positive, or exactly 0")
        for name, value in zip(
            ("charge_id", "workload_key", "scales", "_spent"),
            (charge_id, bytes(workload_key), tuple(scales), False),
            strict=True,
        ):
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"Receipt(charge {self.charge_id}, scales {self.scales})"

    __setattr__ = __delattr__ = refusing(ReceiptError, "a receipt does not change")
    __copy__ = __deepcopy__ = refusing(ReceiptError, "a receipt cannot be copied")
    __reduce_ex__ = refusing(ReceiptError, "a receipt cannot be pickled")


def issue_receipt(charge_id: int, workload_key: bytes, scales: Sequence[float]) -> Receipt:
    """Issue a receipt. Only the accountant may call this, after the charge is written.

    Raises ReceiptError if a scale is negative, infinite or not a number.
    """
    return Receipt(_ISSUER, charge_id, workload_key, scales)


class _Sealed:
    """A wrapper of values. A traceback that shows local variables shows only its address."""

    __slots__ = ("values",)

    def __init__(self, values: Sequence[Sequence[int]]) -> None:
        self.values = tuple(tuple(int(v) for v in column) for column in values)


_OPAQUE: Final = {
    "settable attributes": "setattr",
    "deletable attributes": "delattr",
    "formatted form": "format",
    "comparison": "eq ne",
    "order": "lt le gt ge",
    "hash": "hash",
    "truth value": "bool",
    "integer value": "int",
    "float value": "float",
    "complex value": "complex",
    "index value": "index",
    "bytes": "bytes",
    "length": "len",
    "iterator": "iter reversed",
    "items": "getitem",
    "members": "contains",
    "arithmetic": "add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod divmod "
    "rdivmod pow rpow matmul rmatmul neg pos abs invert",
    "rounding": "round trunc floor ceil",
    "copy": "copy deepcopy",
    "pickled form": "reduce reduce_ex",
    "state": "getstate",
    "array": "array",
}
"""What a `TrueAnswer` lacks, and the special methods that would provide it."""


class TrueAnswer:
    """The sealed Wx. ``values[c][i]`` is the exact integer answer of row i of column c."""

    __slots__ = ("_columns", "_unseal", "_workload_key")

    _columns: int
    _unseal: Callable[[object], tuple[tuple[int, ...], ...]]
    _workload_key: bytes

    def __init__(self, workload_key: bytes, values: Sequence[Sequence[int]]) -> None:
        sealed = _Sealed(values)

        def unseal(opener: object) -> tuple[tuple[int, ...], ...]:
            if opener is not _OPENER:
                raise ReceiptError("a true answer opens only against a receipt")
            return sealed.values

        object.__setattr__(self, "_workload_key", workload_key)
        object.__setattr__(self, "_columns", len(sealed.values))
        object.__setattr__(self, "_unseal", unseal)

    def __repr__(self) -> str:
        return "TrueAnswer(sealed)"

    __str__ = __repr__


for _what, _names in _OPAQUE.items():
    for _name in _names.split():
        _refuses = refusing(TypeError, f"a TrueAnswer is confidential and has no {_what}")
        setattr(TrueAnswer, f"__{_name}__", _refuses)


def open_answer(answer: TrueAnswer, receipt: Receipt) -> tuple[tuple[int, ...], ...]:
    """Return the exact values to a mechanism, which adds noise at ``receipt.scales`` to them.

    Raises ReceiptError if the receipt was already used or was issued for another workload.
    """
    _claim(answer, receipt)
    return answer._unseal(_OPENER)


def _claim(answer: TrueAnswer, receipt: Receipt) -> None:
    """Use up the receipt for the answer, or raise ReceiptError. Two threads cannot both use it."""
    if type(answer) is not TrueAnswer:
        raise ReceiptError("only a true answer can be opened")
    with _lock:
        if type(receipt) is not Receipt or receipt._spent:
            raise ReceiptError("a true answer opens against one unused receipt")
        if receipt.workload_key != answer._workload_key:
            raise ReceiptError("the receipt was issued for another workload")
        if len(receipt.scales) != answer._columns:
            raise ReceiptError("the receipt has a different number of noise scales than the answer")
        object.__setattr__(receipt, "_spent", True)
