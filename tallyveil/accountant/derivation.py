"""Derivations: from which of a table's recorded answers a reported estimate was made.

The weights, the value and the law of the error follow from these answers and the row, so only the
numbers of the answers are recorded. An estimate is unbiased and its law is valid whichever answers
it is made from: a wrong number costs precision, nothing else.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

from tallyveil.errors import LedgerError

__all__ = ["ROW_BYTES", "Basis", "Derivation", "Part", "decode_derivation", "encode_derivation"]

ROW_BYTES = 8  # of a row's key; where two rows have these in common, both are estimated alike


@dataclass(frozen=True)
class Basis:
    """Answers of a table by their numbers, in the order they were recorded. All rows of ``whole``
    are used, and then of each of ``own`` only the estimated row's own answer. If ``rough``, the
    interval reported was a bound, and not from the law of the error. If there are ``parts``, the
    estimate of the row with key ``summed`` and ``content`` is the sum of theirs instead."""

    whole: tuple[int, ...] = ()
    own: tuple[int, ...] = ()
    rough: bool = False
    parts: tuple[Part, ...] = ()
    summed: bytes = b""
    content: int = 1

    @property
    def last(self) -> int:
        """The last of the answers used, -1 if there are none."""
        numbers = (*self.whole, *self.own, *(part.basis.last for part in self.parts))
        return max(numbers, default=-1)


@dataclass(frozen=True)
class Part:
    """``rows`` of one column, as `encode_column` writes it, and the answers that the estimate of
    each was made from: none for exact rows."""

    rows: bytes
    basis: Basis


@dataclass(frozen=True)
class Derivation:
    """``rows`` are the first `ROW_BYTES` of their keys. ``by`` is the confidence at which the
    estimate was the best, None if it was the one of least variance. ``at`` is the confidence of the
    interval reported, if that is known."""

    rows: tuple[bytes, ...]
    basis: Basis
    by: Fraction | None
    at: Fraction | None = None


def encode_derivation(derivation: Derivation) -> bytes:
    basis = derivation.basis
    about = {"by": _written(derivation.by), "at": _written(derivation.at), **_about(basis)}
    if basis.parts:
        about["summed"], about["content"] = basis.summed.hex(), basis.content
        about["parts"] = [
            {"rows": b64encode(part.rows).decode(), **_about(part.basis)} for part in basis.parts
        ]
    return zlib.compress(json.dumps(about).encode() + b"\n" + b"".join(derivation.rows), 1)


def decode_derivation(blob: bytes) -> Derivation:
    """Raises LedgerError for anything but the result of `encode_derivation`."""
    try:
        header, _, keys = zlib.decompress(blob).partition(b"\n")
        about = json.loads(header)
        basis = _basis(about)
        parts = tuple(
            Part(b64decode(part["rows"], validate=True), _basis(part))
            for part in about.get("parts", ())
        )
        summed, content = bytes.fromhex(about.get("summed", "")), about.get("content", 1)
        if type(content) is not int or not content:
            raise ValueError("a row is a multiple of its primitive row")
        return Derivation(
            tuple(keys[at : at + ROW_BYTES] for at in range(0, len(keys), ROW_BYTES)),
            replace(basis, parts=parts, summed=summed, content=content),
            _read(about["by"]),
            _read(about["at"]),
        )
    except (zlib.error, ValueError, KeyError, TypeError, ZeroDivisionError) as error:
        raise LedgerError("a derivation in the ledger cannot be read") from error


def _about(basis: Basis) -> dict[str, Any]:
    return {"whole": basis.whole, "own": basis.own, "rough": basis.rough}


def _basis(about: dict[str, Any]) -> Basis:
    rough = about["rough"]
    if type(rough) is not bool:
        raise ValueError("rough or not")
    return Basis(_numbers(about["whole"]), _numbers(about["own"]), rough)


def _written(confidence: Fraction | None) -> str | None:
    return None if confidence is None else str(confidence)


@lru_cache(maxsize=256)
def _read(confidence: object) -> Fraction | None:
    if confidence is None:
        return None
    if not isinstance(confidence, str):
        raise TypeError("a confidence is written as a fraction")
    return Fraction(confidence)


def _numbers(found: Sequence[int]) -> tuple[int, ...]:
    if found and (not {*map(type, found)} <= {int} or min(found) < 0):
        raise ValueError("an answer has a number")
    return tuple(found)
