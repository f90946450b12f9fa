"""Compression of pieces of bytes to one zlib stream, in portions between which others can run."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, Final

from tallyveil import deadline

__all__ = ["compressed"]

_PORTION: Final = 1 << 20  # bytes that are compressed between two checks of the deadline
_WINDOW: Final = 10  # the logarithm of a small stream's bytes
_HEAD: Final = b"\x78\x01"  # of a stream
# The sample of a long array, and the gain from which repetitions are searched for.
_SAMPLE: Final = 1 << 16
_GAIN: Final = 1.1


def compressed(pieces: Sequence[bytes]) -> bytes:
    """Compress pieces to one stream. Between portions the statement can be stopped.

    A small stream uses a small window, which is quicker to set up.
    """
    if sum(map(len, pieces)) <= 1 << _WINDOW:
        small = zlib.compressobj(1, zlib.DEFLATED, _WINDOW, 4)
        return b"".join([*map(small.compress, pieces), small.flush()])
    searching, found, checksum = _compressor(zlib.Z_DEFAULT_STRATEGY), [_HEAD], zlib.adler32(b"")
    for piece in pieces:
        compressor = searching
        if _repeats_little(piece):
            # Each part ends at a byte, and refers to nothing before it.
            found.append(searching.flush(zlib.Z_FULL_FLUSH))
            compressor = _compressor(zlib.Z_HUFFMAN_ONLY)
        for start in range(0, len(piece), _PORTION):
            deadline.check()
            portion = piece[start : start + _PORTION]
            checksum = zlib.adler32(portion, checksum)
            found.append(compressor.compress(portion))
        if compressor is not searching:
            found.append(compressor.flush(zlib.Z_FULL_FLUSH))
    return b"".join([*found, searching.flush(), checksum.to_bytes(4, "big")])


def _repeats_little(piece: bytes) -> bool:
    """Whether it is long, and a search for repetitions takes longer than it is worth."""
    if len(piece) <= _PORTION:
        return False
    sample = piece[len(piece) // 2 :][:_SAMPLE]
    with_search, without = (
        len(one.compress(sample) + one.flush())
        for one in map(_compressor, (zlib.Z_DEFAULT_STRATEGY, zlib.Z_HUFFMAN_ONLY))
    )
    return without < _GAIN * with_search


def _compressor(strategy: int) -> Any:
    """A compressor for a stream's blocks, without its head and checksum."""
    return zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL, strategy)
