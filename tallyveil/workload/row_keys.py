"""The name of a row: a digest that does not depend on how the row was written.

It is that of s and the T_g of the row's finest Kronecker factorisation (`factorisation`). Those
of a product over disjoint axes follow from those of its factors.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from tallyveil import deadline
from tallyveil.workload.factorisation import FactorParts

__all__ = ["Listed", "listed", "product_keys", "row_key"]


def row_key(parts: Sequence[FactorParts]) -> bytes:
    """The digest of the product of rows over disjoint axes, from the parts of each."""
    if len(parts) == 1:
        scalar, pairs = parts[0]
        named = sorted(pairs) if len(pairs) > 1 else pairs
    else:
        scalar = math.prod(s for s, _ in parts)
        named = sorted(pair for _, pairs in parts for pair in pairs)
    text = b"%d\0" % scalar
    if scalar:
        text += named[0][1] if len(named) == 1 else b"".join(digest for _, digest in named)
    return hashlib.blake2b(text, digest_size=16, person=b"row").digest()


@dataclass(frozen=True)
class Listed:
    """The parts of all rows of a factor, with what their products need of them: the ``ends`` of
    their names in order, None without any, and, where every s is 1, each row's ``digests`` in the
    order of their names.
    """

    parts: tuple[FactorParts, ...]
    ends: tuple[str, str] | None
    digests: tuple[bytes, ...] | None


def listed(parts: tuple[FactorParts, ...]) -> Listed:
    names = {name for _, pairs in parts for name, _ in pairs}
    plain = all(s == 1 for s, _ in parts)
    digests = tuple(
        pairs[0][1] if len(pairs) == 1 else b"".join(digest for _, digest in sorted(pairs))
        for _, pairs in parts
    )
    return Listed(parts, (min(names), max(names)) if names else None, digests if plain else None)


def product_keys(factors: Sequence[Listed], rows: Sequence[Sequence[int]]) -> tuple[bytes, ...]:
    """As `row_key`, for many rows of a product of at least one factor: ``rows[f]`` are the rows of
    factor f that each row has."""
    order = sorted(range(len(factors)), key=lambda f: factors[f].ends or ("", ""))
    ends = [end for f in order if (end := factors[f].ends) is not None]
    apart = all(last < first for (_, last), (first, _) in itertools.pairwise(ends))
    digests = [one.digests for one in factors]
    if not apart or None in digests:
        return tuple(
            row_key([one.parts[i] for one, i in zip(factors, row, strict=True)])
            for row in zip(*rows, strict=True)
        )
    # Their digests, in order, are those of one factor after those of the other.
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
