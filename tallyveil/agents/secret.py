"""The file with an agent's key, and its releases. Only its owner may read it.

It holds the key of the next release and no earlier one. Each key is derived from the one before by
a one-way function, so a stolen file reveals nothing about parts released before. Before anything is
charged, the file records that a release has begun, with a digest of the data. From then on the
release's number is for these data alone, since the difference of two releases with the same noise
would be exact.
"""

from __future__ import annotations

import base64
import fcntl
import hmac
import json
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tallyveil.errors import InvalidParameterValue, OutputError, PolicyError
from tallyveil.files import flush, write_new
from tallyveil.mechanisms.constrained.agent_noise import derived

__all__ = ["Secret"]

_VERSION: Final = 1


class Secret:
    """The contents of the file. One process at a time can open it (`opened`)."""

    def __init__(self, path: Path, document: dict[str, Any]) -> None:
        self._path, self._document = path, document

    @staticmethod
    def make(path: Path) -> None:
        """Create a new secret, to be copied to each agent. Raises OutputError if the file exists or
        cannot be written."""
        key = base64.b64encode(secrets.token_bytes(32)).decode()
        document = {"version": _VERSION, "next": 1, "key": key, "releases": {}}
        try:
            write_new(path, json.dumps(document).encode())
        except OSError as error:
            raise OutputError(f"{path} cannot be written: {error.strerror}") from None

    @classmethod
    @contextmanager
    def opened(cls, path: Path) -> Iterator[Secret]:
        """Open and lock the file.

        Changes replace the file itself, also if the path is a symbolic link, so that no older
        version remains; a file with several hard links is refused.

        Raises PolicyError for a file that is not a secret or has several hard links, and
        OutputError if another process has it open.
        """
        path = path.resolve()
        with _locked(path):
            try:
                names = path.stat().st_nlink
                document = json.loads(path.read_text(encoding="utf-8"))
                sound = document["version"] == _VERSION and document["next"] >= 1
                sound = sound and len(base64.b64decode(document["key"])) == 32
            except OSError as error:
                raise PolicyError(f"the secret {path} cannot be read: {error.strerror}") from None
            except (ValueError, KeyError, TypeError):
                sound = False
            if not sound:
                raise PolicyError(f"{path} is not a secret of agents")
            if names > 1:
                raise PolicyError(
                    f"the secret {path} has another hard link, which would keep its key after the"
                    " release",
                    [f"find it with find -samefile {path}, and remove it"],
                )
            yield cls(path, document)

    @property
    def next(self) -> int:
        number: int = self._document["next"]
        return number

    @property
    def key(self) -> bytes:
        """The key of the next release."""
        return base64.b64decode(self._document["key"])

    def knows(self, number: int) -> bool:
        """Whether the release was begun with this file."""
        return str(number) in self._document["releases"]

    def begin(
        self, agent: str, number: int, fingerprint: str, digest: Callable[[bytes], bytes]
    ) -> list[int] | None:
        """Return the counts that were released under the number, or None if they must be drawn.

        If None, the file durably records the number for this plan and these data, and itself as
        this agent's copy.

        Raises InvalidParameterValue if the file is another agent's copy, if the number is for
        another plan or other data, was skipped, or is not the next.
        """
        owner = self._document.setdefault("agent", agent)
        if owner != agent:
            raise InvalidParameterValue(
                f'{self._path} is the copy of agent "{owner}", not of "{agent}"',
                detail="Two agents' parts with the same noise would reveal the exact difference of"
                " their counts.",
                hint="Give each agent a copy of its own, made before the first release.",
            )
        begun = self._document["releases"].get(str(number))
        if begun is None:
            self._skip_unfinished(number)
            salt = secrets.token_bytes(16)
            self._document["releases"][str(number)] = {
                "plan": fingerprint, "salt": salt.hex(), "data": digest(salt).hex(), "counts": None
            }  # fmt: skip
            self._write()
            return None
        if begun["plan"] != fingerprint:
            raise InvalidParameterValue(
                f"release {number} was begun with another plan or other declared values",
                hint=f"The next release is {self.next}.",
            )
        same = digest(bytes.fromhex(begun["salt"]))
        if not hmac.compare_digest(same, bytes.fromhex(begun["data"])):
            raise InvalidParameterValue(
                f"release {number} was begun with other data",
                detail="Two releases with the same noise would reveal their exact difference.",
                hint=f"Make release {max(self.next, number + 1)}, with all agents.",
            )
        counts: list[int] | None = begun["counts"]
        if counts is None and number != self.next:
            raise InvalidParameterValue(
                f"release {number} was skipped, and its key is deleted",
                hint=f"The next release is {self.next}.",
            )
        return counts

    def keep(self, number: int, counts: Sequence[int]) -> None:
        """Store the counts of the release that was begun, and delete its key. Raises
        OutputError."""
        self._document["releases"][str(number)]["counts"] = list(counts)
        self._step()
        self._write()

    def _skip_unfinished(self, number: int) -> None:
        """Skip the next release if it was begun but not finished and ``number`` follows it.

        Raises InvalidParameterValue unless ``number`` is then the next.
        """
        if number == self.next + 1 and str(self.next) in self._document["releases"]:
            self._step()
        if number != self.next:
            raise InvalidParameterValue(
                f"the next release of this agent is {self.next}, not {number}",
                hint="Each agent must make all releases in order.",
            )

    def _step(self) -> None:
        self._document["key"] = base64.b64encode(derived(self.key, "next")).decode()
        self._document["next"] += 1

    def _write(self) -> None:
        """Replace the file atomically, and remove drafts of earlier processes, which may still
        contain deleted keys. Raises OutputError."""
        draft = self._path.with_name(f".{self._path.name}.draft")
        try:
            draft.unlink(missing_ok=True)
            write_new(draft, json.dumps(self._document).encode())
            os.replace(draft, self._path)
            flush(self._path.parent)
        except OSError as error:
            draft.unlink(missing_ok=True)
            raise OutputError(f"{self._path} cannot be written: {error.strerror}") from None


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Lock a file next to it, since the file itself is replaced. Raises OutputError if another
    process has the lock or the folder cannot be written."""
    try:
        lock = path.with_name(f"{path.name}.lock").open("w", encoding="utf-8")
    except OSError as error:
        raise OutputError(f"{path.parent} cannot be written to: {error.strerror}") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OutputError(f"another process uses the secret {path}") from None
        yield
