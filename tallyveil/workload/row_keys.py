"""The name of a row: a digest that does not depend on how the row was written, nor on its unit.

A row is s times the product of the T_g of its finest Kronecker factorisation (`factorisation`).
The digest is that of the T_g; s, the row's content, is stored beside it. So all multiples of a row
except 0 have one name, as one row may be written in the units of several columns. The names of
products over disjoint axes follow from those of their factors.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tallyveil import deadline
from tallyveil.workload.factorisation import FactorParts

__all__ = ["Listed", "RowNames", "listed", "product_names", "row_key"]


class RowNames(NamedTuple):
    """The digest and the content of each row: row i is ``contents[i]`` times the primitive row of
    its digest. ``contents`` is None if all are 1, as for counts; that of a row of zeros is 1."""

    keys: tuple[bytes, ...]
    contents: tuple[int, ...] | None = None

    def take(self, rows: Sequence[int]) -> RowNames:
        contents = self.contents and _unless_plain(self.contents[row] for row in rows)
        return RowNames(tuple(map(self.keys.__getitem__, rows)), contents)


def row_key(parts: Sequence[FactorParts]) -> bytes:
    """The digest of the product of rows over disjoint axes, from the parts of each."""
    if len(parts) == 1:
        scalar, pairs = parts[0]
        named = sorted(pairs) if len(pairs) > 1 else pairs
    else:
        scalar = math.prod(s for s, _ in parts)
        named = sorted(pair for _, pairs in parts for pair in pairs)
    text = b"0\0"
    if scalar:
        text = b"1\0" + (named[0][1] if len(named) == 1 else b"".join(own for _, own in named))
    return hashlib.blake2b(text, digest_size=16, person=b"row").digest()


@dataclass(frozen=True)
class Listed:
    """The parts of all rows of a factor, prepared for products: the ``ends`` of their names in
    order, None if there are none; each row's ``digests`` in the order of their names, unless some s
    is 0; and the ``contents`` as in `RowNames`.
    """

    parts: tuple[FactorParts, ...]
    ends: tuple[str, str] | None
    digests: tuple[bytes, ...] | None
    contents: tuple[int, ...] | None


def listed(parts: tuple[FactorParts, ...]) -> Listed:
    names = {name for _, pairs in parts for name, _ in pairs}
    zeros = not all(s for s, _ in parts)
    digests = tuple(
        pairs[0][1] if len(pairs) == 1 else b"".join(digest for _, digest in sorted(pairs))
        for _, pairs in parts
    )
    ends = (min(names), max(names)) if names else None
    contents = _unless_plain(s or 1 for s, _ in parts)
    return Listed(parts, ends, None if zeros else digests, contents)


def _unless_plain(contents: Iterable[int]) -> tuple[int, ...] | None:
    """The contents as a tuple, or None if all are 1."""
    found = tuple(contents)
    return None if found.count(1) == len(found) else found


def product_names(factors: Sequence[Listed], rows: Sequence[Sequence[int]]) -> RowNames:
    """The names of many rows of a product of at least one factor; ``rows[f]`` has the row of factor
    f for each."""
    keys = _product_keys(factors, rows)
    scaled = [
        map(one.contents.__getitem__, own)
        for one, own in zip(factors, rows, strict=True)
        if one.contents is not None
    ]
    if not scaled:
        return RowNames(keys)
    nothing, every = row_key([(0, ())]), zip(keys, zip(*scaled, strict=True), strict=True)
    return RowNames(keys, _unless_plain(1 if k == nothing else math.prod(s) for k, s in every))


def _product_keys(factors: Sequence[Listed], rows: Sequence[Sequence[int]]) -> tuple[bytes, ...]:
    """As `product_names`, but only the keys."""
    order = sorted(range(len(factors)), key=lambda f: factors[f].ends or ("", ""))
    ends = [end for f in order if (end := factors[f].ends) is not None]
    apart = all(last < first for (_, last), (first, _) in itertools.pairwise(ends))
    digests = [one.digests for one in factors]
    if not apart or None in digests:
        return tuple(
            row_key([one.parts[i] for one, i in zip(factors, row, strict=True)])
            for row in zip(*rows, strict=True)
        )
    # In order, the digests of one factor come after those of the other.
    texts: list[bytes] = [b"1\0"] * len(rows[0])
    for f in order:
        deadline.check()
        own = digests[f] or ()
        if len(own) > 1:
            texts = [text + own[i] for text, i in zip(texts, rows[f], strict=True)]
        elif own and own[0]:
            texts = [text + own[0] for text in texts]
    deadline.check()
    return tuple(hashlib.blake2b(text, digest_size=16, person=b"row").digest() for text in texts)
