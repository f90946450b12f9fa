"""How an estimate was made that somebody was given: from which of a table's recorded answers.

The weights, the value and the law of the error follow from these answers and the row, so that the
numbers of the answers are all there is to keep. An estimate is unbiased and its law is what it says
whichever answers it is made from: a wrong number costs precision, nothing else.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from tallyveil.errors import LedgerError

__all__ = ["ROW_BYTES", "Basis", "Derivation", "decode_derivation", "encode_derivation"]

ROW_BYTES = 8  # of a row's key; where two rows have these in common, both are estimated alike


@dataclass(frozen=True)
class Basis:
    """Answers of a table by their numbers, in the order they were recorded: of ``whole`` all rows
    take part, of ``own`` the estimated row's own answer alone, one after the other."""

    whole: tuple[int, ...] = ()
    own: tuple[int, ...] = ()


@dataclass(frozen=True)
class Derivation:
    """``rows`` are the first `ROW_BYTES` of their keys. ``by`` is the confidence for which the
    estimate was the best, None if it was the one of least variance."""

    rows: tuple[bytes, ...]
    basis: Basis
    by: Fraction | None


def encode_derivation(derivation: Derivation) -> bytes:
    basis, by = derivation.basis, derivation.by
    about = {"by": None if by is None else str(by), "whole": basis.whole, "own": basis.own}
    return zlib.compress(json.dumps(about).encode() + b"\n" + b"".join(derivation.rows), 1)


def decode_derivation(blob: bytes) -> Derivation:
    """Raises LedgerError for anything but the result of `encode_derivation`."""
    try:
        header, _, keys = zlib.decompress(blob).partition(b"\n")
        about = json.loads(header)
        by = None if about["by"] is None else Fraction(about["by"])
        return Derivation(
            tuple(keys[at : at + ROW_BYTES] for at in range(0, len(keys), ROW_BYTES)),
            Basis(_numbers(about["whole"]), _numbers(about["own"])),
            by,
        )
    except (zlib.error, ValueError, KeyError, TypeError, ZeroDivisionError) as error:
        raise LedgerError("a derivation in the ledger cannot be read") from error


def _numbers(found: Sequence[int]) -> tuple[int, ...]:
    if not all(type(number) is int and number >= 0 for number in found):
        raise ValueError("an answer has a number")
    return tuple(found)
