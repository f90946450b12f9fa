"""Release events and recorded answers as bytes in the ledger.

An event is zlib over a JSON line and the arrays it describes, each in the narrowest integers that
hold it; of a matrix without zeros only the coefficients. It records permanently what was released:
the rows and their unit, the law of the noise and its scale, and whose data it protects. So neither
accounting nor estimates depend on what a mechanism's name means to a later program. If it was
charged as a translate, it has the λ, as fractions by numbers of published rows; programs that do
not read these charge the row itself, which is never too little. It says if all earlier translates
of the table were given up with it. If the noise was drawn together, it
has its joint law, from which the loss follows. It has an empty field for the ``version`` of the
data. ``strategy`` is empty where the rows themselves were released. For a statistic it has what is
listed of the rows of its histogram; programs that cannot read that refuse the ledger.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

from tallyveil import deadline
from tallyveil.accountant.charges import Charge
from tallyveil.accountant.joint_law import Joint
from tallyveil.arrays import IntArray
from tallyveil.errors import LedgerError
from tallyveil.invariants import Translate
from tallyveil.mechanisms import STATISTICS
from tallyveil.mechanisms.adjacency import Adjacency
from tallyveil.workload.histogram import Histogram, Kind
from tallyveil.workload.workload import Column, Factor, Workload

__all__ = [
    "decode_answers",
    "decode_charge",
    "decode_column",
    "encode_answers",
    "encode_charge",
    "encode_column",
]

# Factors of at most this number of bytes are shared.
_SMALL = 512
_Held: TypeAlias = tuple[int, tuple[str, ...], bytes]
"""The number of entries of arrays, their types, and their bytes."""
_WIDTHS = tuple((np.dtype(f"<i{size}"), 1 << (8 * size - 1)) for size in (1, 2, 4, 8))
"""Integer types, each with the number of its values from 0 up."""


_WINDOW = 10  # the logarithm of a small stream's bytes
_PORTION = 1 << 20  # bytes that are compressed between two checks of the deadline


def _compressed(pieces: Sequence[bytes]) -> bytes:
    """Compress pieces to one stream. Between portions the statement can be stopped.

    A small stream uses a small window, which is quicker to set up.
    """
    small = sum(map(len, pieces)) <= 1 << _WINDOW
    compressor = zlib.compressobj(1, zlib.DEFLATED, *((_WINDOW, 4) if small else ()))
    found = []
    for piece in pieces:
        for start in range(0, len(piece), _PORTION):
            deadline.check()
            found.append(compressor.compress(piece[start : start + _PORTION]))
    return b"".join([*found, compressor.flush()])


def encode_charge(charge: Charge, relation: Adjacency | None = None) -> bytes:
    """Encode what was released, and the neighbouring ``relation`` that it protects."""
    header: list[dict[str, Any]] = []
    body: list[bytes] = []
    for column, scale in zip(charge.workload.columns, charge.scales, strict=True):
        header.append(_described(column, body) | {"scale": float(scale).hex()})
    for translate, about in zip(charge.translates, header, strict=False):
        if translate is not None:
            described, held = _held(translate.rows, translate.declared, translate.numerators)
            about["translate"] = {"denominator": translate.denominator, **described}
            body += held
    about_all: dict[str, Any] = {
        "law": charge.law,
        "protects": None if relation is None else [relation.neighbours, relation.max_rows],
        "version": None,
        "strategy": None,
        "columns": header,
    }
    if charge.plainly:
        about_all["plainly"] = True
    if (own := charge.histogram) is not None:
        described, held = _held(own.rows, own.groups)
        about_all["strategy"] = {"height": own.height, "q": own.q and str(own.q), **described}
        body += held
    if charge.joint is not None:
        described, held = _held(np.array(charge.joint.parents, dtype=np.int64))
        about_all["joint"] = {"law": charge.joint.name, "rows": charge.joint.rows, **described}
        body += held
    return _compressed([json.dumps(about_all).encode(), b"\n", *body])


def _described(column: Column, body: list[bytes]) -> dict[str, Any]:
    """A column's part of the header; its arrays are appended to the ``body``."""
    about: dict[str, Any] = {"multiplier": str(column.multiplier), "factors": []}
    for factor in column.factors:
        described, held = _written(factor)
        about["factors"].append(described)
        body += held
    if column.selected is not None:
        about["selected"], held = _held(column.selected)
        body += held
    return about


def _written(factor: Factor) -> tuple[dict[str, Any], tuple[bytes, ...]]:
    """A factor's part of the header and of the body; cached for small ones, which charges share."""
    kept = _WRITTEN.get(factor)
    if kept is None:
        # Each row of a matrix without zeros has its cells in order.
        full = len(factor.cells) == factor.height * factor.size
        arrays = (
            (factor.coefficients,) if full else (factor.rows, factor.cells, factor.coefficients)
        )
        described, held = _held(*arrays)
        layout = {"axes": factor.axes, "shape": factor.shape, "height": factor.height}
        kept = {**layout, **described}, held
        if sum(map(len, kept[1])) <= _SMALL:
            _WRITTEN[factor] = kept
    return kept


def _held(*arrays: IntArray) -> tuple[dict[str, Any], tuple[bytes, ...]]:
    """Arrays of one length: how `_Body` finds them, and their bytes."""
    narrow = [_narrow(array) for array in arrays]
    about = {"entries": len(narrow[0]), "widths": [array.dtype.str for array in narrow]}
    return about, tuple(array.tobytes() for array in narrow)


_WRITTEN: WeakKeyDictionary[Factor, tuple[dict[str, Any], tuple[bytes, ...]]] = WeakKeyDictionary()


def decode_charge(table: str, mechanism: str, blob: bytes) -> Charge:
    """Decode a charge, without its statement. Raises LedgerError for anything else."""
    try:
        header, _, body = zlib.decompress(blob).partition(b"\n")
        columns, scales = [], []
        rest = _Body(body)
        whole: dict[str, Any] = json.loads(header.decode())
        named = mechanism in STATISTICS
        if whole["version"] is not None or named != (whole["strategy"] is not None):
            raise LedgerError("a charge in the ledger was made by a later version of this program")
        for about in whole["columns"]:
            columns.append(_column(about, rest))
            scales.append(float.fromhex(about["scale"]))
        translates = [_translate(about.get("translate"), rest) for about in whole["columns"]]
        histogram = None
        if named:
            kind = STATISTICS[mechanism].kind
            histogram = _histogram(columns[0], whole["strategy"], rest, kind)
        joint = _joint(whole.get("joint"), rest)
    except (zlib.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise LedgerError("a charge in the ledger cannot be read") from error
    known = tuple(translates) if any(translates) else ()
    plainly = bool(whole.get("plainly"))
    workload = Workload(table, tuple(columns))
    return Charge(
        workload, mechanism, tuple(scales), "", whole["law"], known, plainly, joint, histogram
    )


def encode_column(column: Column) -> bytes:
    body: list[bytes] = []
    header = json.dumps(_described(column, body)).encode()
    return _compressed([header, b"\n", *body])


def decode_column(blob: bytes) -> Column:
    """Raises LedgerError for anything but the result of `encode_column`."""
    try:
        header, _, body = zlib.decompress(blob).partition(b"\n")
        return _column(json.loads(header), _Body(body))
    except (zlib.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise LedgerError("rows in the ledger cannot be read") from error


def _column(about: dict[str, Any], body: _Body) -> Column:
    factors = tuple(_factor(one, body) for one in about["factors"])
    selected = _arrays(*body.next(about["selected"]))[0] if "selected" in about else None
    return Column(factors, _fraction(about["multiplier"]), selected)


def _joint(about: dict[str, Any] | None, body: _Body) -> Joint | None:
    if about is None:
        return None
    [parents] = _arrays(*body.next(about))
    return Joint(about["law"], about["rows"], tuple(parents.tolist()))


def _histogram(column: Column, about: dict[str, Any], body: _Body, kind: Kind) -> Histogram:
    rows, groups = _arrays(*body.next(about))
    q = None if about["q"] is None else _fraction(about["q"])
    return Histogram(column, rows, groups, about["height"], q, kind)


def _translate(about: dict[str, Any] | None, body: _Body) -> Translate | None:
    if about is None:
        return None
    rows, declared, numerators = _arrays(*body.next(about))
    return Translate(rows, declared, numerators, about["denominator"])


_fraction: Final = lru_cache(maxsize=1024)(Fraction)


@lru_cache(maxsize=64)
def _bytes_of(width: str) -> int:
    return np.dtype(width).itemsize


class _Body:
    """The bytes of arrays, one after the other, that follow the header."""

    def __init__(self, body: bytes) -> None:
        self._body, self._at = body, 0

    def next(self, about: dict[str, Any]) -> _Held:
        """The next array's bytes. Raises ValueError if there are too few."""
        written = about["entries"], tuple(about["widths"])
        start = self._at
        self._at += about["entries"] * sum(map(_bytes_of, written[1]))
        if not start <= self._at <= len(self._body):
            raise ValueError("an array is cut off")
        return *written, self._body[start : self._at]


def _arrays(entries: int, widths: Sequence[str], held: bytes) -> list[IntArray]:
    found, at = [], 0
    for width in widths:
        array = np.frombuffer(held, np.dtype(width), entries, at)
        at += array.nbytes
        found.append(array.astype(np.int64))
    return found


def _factor(about: dict[str, Any], body: _Body) -> Factor:
    layout = tuple(about["axes"]), tuple(about["shape"]), about["height"]
    written = body.next(about)
    return (_shared if len(written[2]) <= _SMALL else _made)(*layout, *written)


def _made(
    axes: tuple[str, ...], shape: tuple[int, ...], height: int, entries: int,
    widths: tuple[str, ...], held: bytes,
) -> Factor:  # fmt: skip
    *places, coefficients = _arrays(entries, widths, held)
    if not places:
        every = np.arange(height), np.arange(math.prod(shape))
        if entries != math.prod(map(len, every)):
            raise ValueError("a matrix without zeros has a coefficient for each cell")
        places = [np.repeat(every[0], len(every[1])), np.tile(every[1], height)]
    rows, cells = places
    return Factor(axes, shape, height, rows, cells, coefficients)


@lru_cache(maxsize=16384)
def _shared(*written: Any) -> Factor:
    """A factor with its row names, shared by the many charges that have the same conditions."""
    factor = _made(*written)
    _ = factor.named
    return factor


def encode_answers(values: Sequence[Sequence[int]]) -> bytes:
    """Encode integers of any size, one list per column."""
    columns = (
        ", ".join(", ".join(map(str, map(int, some))) for some in deadline.portions(column))
        for column in values
    )
    return _compressed([f"[{', '.join(f'[{column}]' for column in columns)}]".encode()])


def decode_answers(blob: bytes, heights: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Decode answers. Raises LedgerError unless there is one integer per row of each column."""
    try:
        values = tuple(tuple(column) for column in json.loads(zlib.decompress(blob).decode()))
    except (zlib.error, ValueError, TypeError) as error:
        raise LedgerError("an answer in the ledger cannot be read") from error
    if [len(column) for column in values] != list(heights) or not all(
        type(value) is int for column in values for value in column
    ):
        raise LedgerError("an answer in the ledger does not fit its charge")
    return values


def _narrow(values: IntArray) -> np.ndarray[tuple[int, ...], np.dtype[np.signedinteger]]:
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    width = next(width for width, bound in _WIDTHS if -bound <= low and high < bound)
    return values.astype(width)
