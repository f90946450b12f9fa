"""Files of confidential counts that only the ledger's owner can make and read.

A file has mode 0600 and ends in a keyed digest (BLAKE2b under a key of the ledger), so that it is
refused if it was changed, or under another ledger.
"""

from __future__ import annotations

import fcntl
import fnmatch
import hashlib
import hmac
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np

from tallyveil.arrays import CodeArray
from tallyveil.errors import OutputError, SourceError
from tallyveil.files import flush

__all__ = ["FilesInMemory", "SealedFiles"]

_BEGINS: Final = b"tallyveil cube 1\n"
_DIGEST: Final = 32
_CHUNK: Final = 1 << 20


@dataclass(frozen=True)
class SealedFiles:
    """Files in a ``folder``, under the ledger's ``key``. Messages say ``what`` they are of, and
    what to do with one that is damaged: ``remedy``."""

    folder: Path
    key: bytes
    what: str
    remedy: str

    def read(self, name: str) -> tuple[dict[str, Any], list[CodeArray]] | None:
        """The header and the arrays of a file; None if there is none.

        Raises SourceError if the file cannot be read, may be read by others, was changed, or was
        made under another ledger.
        """
        path = self.folder / name
        try:
            with path.open("rb") as file:
                if os.fstat(file.fileno()).st_mode & 0o077:
                    raise SourceError(
                        f"{self.what}: {path} holds confidential counts, and others may read it",
                        hint=f"chmod 600 {path}",
                    )
                if not self._is_sealed(file):
                    raise SourceError(
                        f"{self.what}: {path} was changed, or was made under another ledger",
                        hint=self.remedy,
                    )
                return self._unpacked(file)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SourceError(f"{self.what}: {path} cannot be read: {error.strerror}") from None

    def write(self, name: str, header: Mapping[str, Any], arrays: Sequence[CodeArray]) -> None:
        """Write a file, durable when it returns. Whoever reads meanwhile finds it whole, or none.

        Raises OutputError if it cannot be written.
        """
        path = self.folder / name
        unfinished = path.with_name(f"{name}.{os.getpid()}")
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for left in self.names(f"{escape(name)}.*"):
                (self.folder / left).unlink(missing_ok=True)  # of a process that was killed
            self._seal(unfinished, _packed(header, arrays))
            try:
                unfinished.replace(path)
            except FileNotFoundError:
                return  # another process writes the same
            flush(self.folder)
        except OSError as error:
            unfinished.unlink(missing_ok=True)
            raise OutputError(f"{self.what}: {path} cannot be written: {error.strerror}") from None

    def names(self, pattern: str) -> list[str]:
        """The names of the files of a pattern."""
        held = os.listdir(self.folder) if self.folder.exists() else ()
        return fnmatch.filter(held, pattern)

    def remove(self, name: str) -> None:
        """Remove a file, if it is there. Raises OutputError."""
        self.keep(f"{escape(name)}*", ())

    def keep(self, pattern: str, names: Iterable[str]) -> None:
        """Remove all files of a pattern but these, also unfinished ones. Raises OutputError."""
        try:
            for name in {*self.names(pattern)} - {*names}:
                (self.folder / name).unlink(missing_ok=True)
        except OSError as error:
            raise OutputError(
                f"{self.what}: {self.folder} cannot be changed: {error.strerror}"
            ) from None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold a lock that one process has at a time.

        Raises OutputError if the folder cannot be written.
        """
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise OutputError(
                f"{self.what}: {self.folder} cannot be used: {error.strerror}"
            ) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _seal(self, path: Path, parts: Iterator[bytes]) -> None:
        digest = hashlib.blake2b(key=self.key, digest_size=_DIGEST)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            for part in parts:
                digest.update(part)
                file.write(part)
            file.write(digest.digest())
            file.flush()
            os.fsync(file.fileno())

    def _is_sealed(self, file: BinaryIO) -> bool:
        digest = hashlib.blake2b(key=self.key, digest_size=_DIGEST)
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

    def _unpacked(self, file: BinaryIO) -> tuple[dict[str, Any], list[CodeArray]]:
        """What is in a file whose seal is right."""
        if file.read(len(_BEGINS)) != _BEGINS:
            raise SourceError(f"{self.what}: {file.name} is of another version", hint=self.remedy)
        header = json.loads(file.read(int.from_bytes(file.read(8), "big")))
        held = zip(header.pop("types"), header.pop("lengths"), strict=True)
        return header, [np.fromfile(file, kind, length) for kind, length in held]


class FilesInMemory(SealedFiles):
    """Files that end with the process, for a ledger in memory."""

    def __init__(self) -> None:
        super().__init__(Path(), b"", "", "")
        object.__setattr__(self, "_held", {})

    _held: dict[str, tuple[dict[str, Any], list[CodeArray]]]

    def read(self, name: str) -> tuple[dict[str, Any], list[CodeArray]] | None:
        return self._held.get(name)

    def write(self, name: str, header: Mapping[str, Any], arrays: Sequence[CodeArray]) -> None:
        self._held[name] = dict(header), list(arrays)

    def names(self, pattern: str) -> list[str]:
        return []  # of the versions that this process knows

    def remove(self, name: str) -> None:
        self._held.pop(name, None)

    def keep(self, pattern: str, names: Iterable[str]) -> None:
        pass  # nothing is left by a process that ended

    @contextmanager
    def locked(self) -> Iterator[None]:
        yield


def _packed(header: Mapping[str, Any], arrays: Sequence[CodeArray]) -> Iterator[bytes]:
    """A first line, the length of a header, the header as JSON, and the arrays."""
    small = [_small(array) for array in arrays]
    about = {"types": [one.dtype.str for one in small], "lengths": [len(one) for one in small]}
    text = json.dumps({**header, **about}).encode()
    yield _BEGINS + len(text).to_bytes(8, "big") + text
    for array in small:
        yield array.tobytes()


def _small(array: CodeArray) -> CodeArray:
    if array.dtype == np.uint64:
        return array
    least, most = int(array.min(initial=0)), int(array.max(initial=0))
    kinds = ("<u1", "<u2", "<u4", "<i8") if least >= 0 else ("<i1", "<i2", "<i4", "<i8")
    fits = (kind for kind in kinds if np.iinfo(kind).min <= least and most <= np.iinfo(kind).max)
    return array.astype(next(fits))
