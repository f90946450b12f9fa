"""The file with an agent's key, and what was begun and released with it: for its owner's eyes only.

It holds the key of the next release and no earlier one: that of the next follows from it by a step
that cannot be undone, so that who takes the file learns nothing about parts released before. A
release is begun in it, with a digest of the data, before anything is charged; from then on its
number is for these data alone, since what two releases of one noise differ by is exact.
"""

from __future__ import annotations

import base64
import hmac
import json
import os
import secrets
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tallyveil.errors import InvalidParameterValue, OutputError, PolicyError
from tallyveil.files import flush, write_new
from tallyveil.mechanisms.constrained.shared import derived

__all__ = ["Secret"]

_VERSION: Final = 1


class Secret:
    """What the file says. One process has it at a time (`opened`)."""

    def __init__(self, path: Path, document: dict[str, Any]) -> None:
        self._path, self._document = path, document

    @staticmethod
    def make(path: Path) -> None:
        """A new secret, to be copied to each agent. Raises OutputError for a file that is there."""
        key = base64.b64encode(secrets.token_bytes(32)).decode()
        document = {"version": _VERSION, "next": 1, "key": key, "releases": {}}
        try:
            write_new(path, json.dumps(document).encode())
        except OSError as error:
            raise OutputError(f"{path} cannot be written: {error.strerror}") from None

    @classmethod
    @contextmanager
    def opened(cls, path: Path) -> Iterator[Secret]:
        """Raises PolicyError for a file that is none, and OutputError while another process has
        it. The file itself is replaced, whatever links lead there: no older one stays behind. One
        with several names is refused."""
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
                raise PolicyError(f"{path} is no secret of agents")
            if names > 1:
                raise PolicyError(
                    f"the secret {path} has another name, by a hard link, which would keep its key"
                    " after the release",
                    [f"find the other name by find -samefile {path}, and remove it"],
                )
            yield cls(path, document)

    @property
    def next(self) -> int:
        number: int = self._document["next"]
        return number

    @property
    def key(self) -> bytes:
        """Of the next release."""
        return base64.b64decode(self._document["key"])

    def knows(self, number: int) -> bool:
        """Whether the release was begun with this file."""
        return str(number) in self._document["releases"]

    def begin(
        self, agent: str, number: int, fingerprint: str, digest: Callable[[bytes], bytes]
    ) -> list[int] | None:
        """The counts that were released under the number, or None: then the number is for this
        plan and these data from now on, and the secret this agent's, durably.

        Raises InvalidParameterValue for another agent, a number of another plan or other data, one
        that was passed over, and one that is not next.
        """
        owner = self._document.setdefault("agent", agent)
        if owner != agent:
            raise InvalidParameterValue(
                f'{self._path} is the copy of agent "{owner}", not of "{agent}"',
                detail="Two parts with the noise of one agent would differ by exactly what their"
                " counts differ by.",
                hint="Each agent has a copy of its own, made before it released anything.",
            )
        begun = self._document["releases"].get(str(number))
        if begun is None:
            self._pass_over(number)
            salt = secrets.token_bytes(16)
            self._document["releases"][str(number)] = {
                "plan": fingerprint, "salt": salt.hex(), "data": digest(salt).hex(), "counts": None
            }  # fmt: skip
            self._write()
            return None
        if begun["plan"] != fingerprint:
            raise InvalidParameterValue(
                f"release {number} is of another plan, or the policy declares other values now",
                hint=f"The next release is {self.next}.",
            )
        same = digest(bytes.fromhex(begun["salt"]))
        if not hmac.compare_digest(same, bytes.fromhex(begun["data"])):
            raise InvalidParameterValue(
                f"release {number} was begun with other data",
                detail="The noise of a release is for one state of the data: two would differ by"
                " exactly what has changed.",
                hint=f"Release number {max(self.next, number + 1)}, with all agents.",
            )
        counts: list[int] | None = begun["counts"]
        if counts is None and number != self.next:
            raise InvalidParameterValue(
                f"release {number} was passed over: its key is gone",
                hint=f"The next release is {self.next}.",
            )
        return counts

    def keep(self, number: int, counts: Sequence[int]) -> None:
        """What was drawn for the release that was begun; its key is gone then."""
        self._document["releases"][str(number)]["counts"] = list(counts)
        self._step()
        self._write()

    def _pass_over(self, number: int) -> None:
        """Make the number the next one, if a release was begun that cannot be ended."""
        if number == self.next + 1 and str(self.next) in self._document["releases"]:
            self._step()
        if number != self.next:
            raise InvalidParameterValue(
                f"the next release of this agent is {self.next}, not {number}",
                hint="Releases are made in their order, by each agent: those it missed come first.",
            )

    def _step(self) -> None:
        self._document["key"] = base64.b64encode(derived(self.key, "next")).decode()
        self._document["next"] += 1

    def _write(self) -> None:
        """Whole or not at all, with no draft of an earlier process left, which has a key that is to
        be gone. Raises OutputError."""
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
    """A file beside it is locked, since the file itself is replaced."""
    if sys.platform == "win32":
        raise PolicyError("agents need a system with file locks of POSIX")
    import fcntl

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
