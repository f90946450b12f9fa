"""What was counted, kept in files that only the ledger's owner can make and read.

A restart and further processes of the same ledger load the counts instead of reading the source
again. The file of a table has mode 0600 and ends in a keyed digest (BLAKE2b under a key of the
ledger), so that it is refused if it was changed, or under another ledger. It holds the fingerprint
of the table's declaration; where that differs, the table is counted, and the ledger decides. It
also holds which relations of the source the table reads, which others of the policy may share.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import numpy as np

from tallyveil.arrays import CodeArray
from tallyveil.cube.cube import Cube
from tallyveil.errors import OutputError, SourceError
from tallyveil.files import flush
from tallyveil.policy import Policy, Table

__all__ = ["Kept", "SealedCubes"]

_BEGINS: Final = b"tallyveil cube 1\n"
_DIGEST: Final = 32
_CHUNK: Final = 1 << 20
_DELETE: Final = "Delete the file: then the table is counted again from its source."


class Kept(NamedTuple):
    """What is kept of a table: its cube, and the relations it ``reads`` (`relations_read`)."""

    cube: Cube
    reads: frozenset[str] | None


class SealedCubes:
    """The files of one policy in a ``folder``, under the ledger's ``key``."""

    def __init__(self, folder: Path, key: bytes) -> None:
        self._folder = folder
        self._key = key

    def read_all(self, policy: Policy) -> dict[str, Kept]:
        """What is kept of all tables, as `read`; none if that of one is missing, since all are
        counted as of one moment."""
        found = {name: self.read(table) for name, table in policy.tables.items()}
        kept = {name: own for name, own in found.items() if own is not None}
        return kept if len(kept) == len(found) else {}

    def read(self, table: Table) -> Kept | None:
        """What was kept for this declaration of the table; None if there is none.

        Raises SourceError if its file cannot be read, may be read by others, was changed, or was
        made under another ledger.
        """
        path = self._path(table)
        try:
            with path.open("rb") as file:
                if os.fstat(file.fileno()).st_mode & 0o077:
                    raise SourceError(
                        f"cubes: {path} holds confidential counts, and others may read it",
                        hint=f"chmod 600 {path}",
                    )
                if not self._is_sealed(file):
                    raise SourceError(
                        f"cubes: {path} was changed, or was made under another ledger", hint=_DELETE
                    )
                return _unpacked(file, table)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SourceError(f"cubes: {path} cannot be read: {error.strerror}") from None

    def write(self, table: Table, kept: Kept) -> None:
        """Keep it. Whoever reads meanwhile finds the file whole, or none.

        Raises OutputError if the file cannot be written.
        """
        path = self._path(table)
        unfinished = path.with_name(f"{path.name}.{os.getpid()}")
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for left in self._folder.glob(f"{path.name}.*"):
                left.unlink(missing_ok=True)  # of a process that was killed
            self._seal(unfinished, _packed(table, kept))
            try:
                unfinished.replace(path)
            except FileNotFoundError:
                return  # another process writes the same
            flush(self._folder)
        except OSError as error:
            unfinished.unlink(missing_ok=True)
            raise OutputError(f"cubes: {path} cannot be written: {error.strerror}") from None

    def _path(self, table: Table) -> Path:
        return self._folder / f"{table.name}.cube"

    def _seal(self, path: Path, parts: Iterator[bytes]) -> None:
        digest = hashlib.blake2b(key=self._key, digest_size=_DIGEST)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            for part in parts:
                digest.update(part)
                file.write(part)
            file.write(digest.digest())
            file.flush()
            os.fsync(file.fileno())

    def _is_sealed(self, file: BinaryIO) -> bool:
        digest = hashlib.blake2b(key=self._key, digest_size=_DIGEST)
        left = os.fstat(file.fileno()).st_size - _DIGEST
        while left > 0:
            part = file.read(min(left, _CHUNK))
            if not part:
                return False
            digest.update(part)
            left -= len(part)
        found = file.read(_DIGEST)
        file.seek(0)
        return hmac.compare_digest(found, digest.digest())


def _packed(table: Table, kept: Kept) -> Iterator[bytes]:
    """A first line, the length of a header, the header as JSON, and the arrays."""
    cube, reads = kept
    counts = cube._counts
    units = () if counts.units is None else (counts.units,)
    arrays = [_small(array) for array in (counts.counts, *counts.codes, *units)]
    header = {
        "declaration": table.fingerprint,
        "reads": None if reads is None else sorted(reads),
        "truncates": [attribute.truncates for attribute in cube.domain.attributes],
        "types": [array.dtype.str for array in arrays],
        "cells": len(arrays[0]),
    }
    text = json.dumps(header).encode()
    yield _BEGINS + len(text).to_bytes(8, "big") + text
    for array in arrays:
        yield array.tobytes()


def _small(array: CodeArray) -> CodeArray:
    largest = int(array.max(initial=0))
    kinds = ("<u1", "<u2", "<u4", "<i8")
    return array.astype(next(kind for kind in kinds if largest <= np.iinfo(kind).max))


def _unpacked(file: BinaryIO, table: Table) -> Kept | None:
    """What is in a file whose seal is right."""
    if file.read(len(_BEGINS)) != _BEGINS:
        raise SourceError(f"cubes: {file.name} is of another version", hint=_DELETE)
    header = json.loads(file.read(int.from_bytes(file.read(8), "big")))
    if header["declaration"] != table.fingerprint:
        return None
    counts, *codes = (np.fromfile(file, kind, header["cells"]) for kind in header["types"])
    units = codes.pop() if len(codes) > len(table.cells.attributes) else None
    cells = table.cells
    attributes = zip(cells.attributes, header["truncates"], strict=True)
    domain = replace(cells, attributes=tuple(replace(a, truncates=t) for a, t in attributes))
    reads = header["reads"]
    return Kept(
        Cube(domain, tuple(codes), counts.astype(np.int64), units),
        None if reads is None else frozenset(reads),
    )
