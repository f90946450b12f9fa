"""Copies of a ledger file: checked, made while it is in use, and put back.

A copy holds what was committed when it was made. Put back later, it gives back all that was spent
since, and nobody can tell from the copy: so it replaces only a ledger none of whose charges it
lacks. A `Witness`, written down when a copy was made, says of any file whether it has the charges
of then.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import sqlite3
from collections.abc import Iterator
from glob import escape
from pathlib import Path
from typing import Any, Final, NamedTuple

from tallyveil.accountant.store.chain import START, Position
from tallyveil.accountant.store.ledger_records import (
    AnswerRecord,
    ChargeRecord,
    DerivationRecord,
    MigrationRecord,
    ReplacementRecord,
    VersionRecord,
)
from tallyveil.accountant.store.ledger_store import Snapshot
from tallyveil.accountant.store.sqlite_ledger import KINDS, Ledger
from tallyveil.errors import InvalidParameterValue, LedgerError
from tallyveil.files import flush

__all__ = [
    "WITNESSED", "Contents", "Witness", "back_up", "drafted", "remove_drafts", "restore", "swap",
    "verify", "witness_of",
]  # fmt: skip


class Witness(NamedTuple):
    """That a ledger has had so many ``charges``, the last of them with this ``chain``."""

    charges: int
    chain: bytes

    def __str__(self) -> str:
        return f"{self.charges}-{self.chain.hex()}"

    @classmethod
    def read(cls, text: str) -> Witness:
        """Raises InvalidParameterValue."""
        found = re.fullmatch(r"(\d{1,18})-((?:[0-9a-f]{2})*)", text.strip())
        if found is None:
            raise InvalidParameterValue(
                f'"{text[:80]}" is no witness of a ledger',
                hint="tallyveil ledger verify prints one: a number, a hyphen, and a code.",
            )
        return cls(int(found[1]), bytes.fromhex(found[2]))


WITNESSED: Final = (ChargeRecord, VersionRecord, ReplacementRecord)
"""The kinds of records of which a witness is kept: charges, and versions of both kinds."""

_WORDS: Final = {
    VersionRecord: "versions",
    ReplacementRecord: "versions",
    MigrationRecord: "migrations",
    AnswerRecord: "answers",
}


def witness_of(view: Snapshot) -> str:
    """A `Witness` of each of the kinds `WITNESSED`."""
    return " ".join(str(Witness(*view.end(kind))) for kind in WITNESSED)


class Contents(NamedTuple):
    """How many records a ledger has, the time of its last charge, and its witness."""

    charges: int
    answers: int
    reports: int
    latest: str | None
    witness: Witness


def verify(path: Path, witness: Witness | None = None) -> Contents:
    """Check the chains of all records of a ledger.

    Raises LedgerError if it cannot be read, if a record was altered or lost, or if it lacks charges
    that the ``witness`` saw.
    """
    ends, latest = dict[object, Position](), None
    with contextlib.closing(Ledger(path, create=False)) as ledger, ledger.snapshot() as snapshot:
        for kind in KINDS:
            ends[kind] = START
            for record, position in snapshot.after(kind):
                ends[kind] = position
                latest = record.time if isinstance(record, ChargeRecord) else latest
        seen = START if witness is None else Position(*witness)
        if seen != START and not snapshot.outcome(ChargeRecord, seen):
            raise LedgerError(
                f"the ledger {path} lacks charges that it had when the witness was made",
                hint="It is an older copy, or another ledger. Put back the one with all charges; if"
                " there is none, treat the budget as spent.",
            )
    return Contents(
        ends[ChargeRecord].number,
        ends[AnswerRecord].number,
        ends[DerivationRecord].number,
        latest,
        Witness(*ends[ChargeRecord]),
    )


def back_up(path: Path, copy: Path) -> Contents:
    """Copy a ledger, which may be in use, to a new file that only its owner may read; what the copy
    contains.

    Raises LedgerError as `verify` does, and if the file exists or cannot be written.
    """
    with _reported(copy, "written"), contextlib.closing(Ledger(path, create=False)) as ledger:
        if copy.exists():
            raise LedgerError(f"{copy} exists already", hint="Name a new file.")
        with _draft(copy) as draft:
            ledger.copy_to(draft)
            found = verify(draft)
            os.link(draft, copy)
        flush(copy.parent)
    return found


def restore(copy: Path, path: Path) -> Contents:
    """Put a copy in a ledger's place; what it contains.

    A ledger that is there is locked meanwhile: whoever uses it fails from then on, and gives no
    answer that the copy does not know of.

    Raises LedgerError as `verify` does, of either file, and if the ledger has records that the copy
    lacks.
    """
    with contextlib.closing(Ledger(copy, create=False)) as source, _reported(path, "replaced"):
        with _draft(path) as draft:
            source.copy_to(draft)
            found = verify(draft)
            if path.exists():
                _replace(path, draft)
            else:
                path.with_name(f"{path.name}-journal").unlink(missing_ok=True)
                os.link(draft, path)  # fails if another process has just begun a ledger
        path.with_name(f"{path.name}-summary").unlink(missing_ok=True)
        flush(path.parent)
    return found


def _replace(path: Path, draft: Path) -> None:
    verify(path)
    with contextlib.closing(Ledger(path, create=False)) as ledger, ledger.exclusive() as now:
        lacking = _lacking(draft, now)
        if ChargeRecord in lacking:
            raise LedgerError(
                f"the ledger {path} has charges that the copy lacks: to put the copy in its place"
                " would give back what was spent",
                hint="Keep the ledger. If it is to go all the same, move it away yourself, and"
                " treat the budget as spent.",
            )
        if lacking:
            some = next((words for kind, words in _WORDS.items() if kind in lacking), "records")
            raise LedgerError(
                f"the ledger {path} has {some} that the copy lacks",
                hint="Keep the ledger. If it is to go all the same, move it away yourself.",
            )
        draft.replace(path)


@contextlib.contextmanager
def drafted(path: Path, of: Path | None = None) -> Iterator[Path]:
    """A copy of a ledger, or ``of`` a draft of it, beside it for `swap`, until the end. Raises
    LedgerError as `verify` does."""
    with contextlib.ExitStack() as held:
        with _reported(path, "copied"), contextlib.closing(Ledger(of or path, create=False)) as one:
            draft = held.enter_context(_draft(path))
            one.copy_to(draft)
        yield draft


def swap(path: Path, draft: Path, kept: Path) -> Contents:
    """Put a ``draft`` in a ledger's place, of which a copy is ``kept`` by another name; what the
    draft contains.

    The copy is complete before the ledger is replaced, in one step: whoever is killed leaves the
    ledger or the draft in place, and at worst a copy that nobody reads, or a draft
    (`remove_drafts`).

    Raises LedgerError if the ledger is open elsewhere, or has records that the draft lacks.
    """
    found = verify(draft)
    with _reported(path, "replaced"), contextlib.closing(Ledger(path, create=False)) as ledger:
        if ledger.in_use:
            raise LedgerError(
                f"the ledger {path} is in use",
                hint="Stop the servers and connections of this policy first, and start them again"
                " afterwards.",
            )
        with _draft(path) as former:
            ledger.copy_to(former)
            with ledger.exclusive() as now:
                if _lacking(draft, now) or _lacking(former, now) or kept.exists():
                    raise LedgerError(
                        f"the ledger {path} was written to meanwhile", hint="Begin again."
                    )
                former.rename(kept)
                flush(path.parent)
                draft.replace(path)
        path.with_name(f"{path.name}-summary").unlink(missing_ok=True)
        flush(path.parent)
    return found


def _lacking(copy: Path, now: Snapshot) -> list[type[Any]]:
    """The kinds of records of a ledger of which a copy has not all."""
    with contextlib.closing(Ledger(copy)) as other, other.snapshot() as snapshot:
        ends = [(kind, now.end(kind)) for kind in KINDS]
        return [kind for kind, own in ends if own.number and not snapshot.outcome(kind, own)]


_BESIDE: Final = ("-journal", "-summary", "")  # what a draft may have beside it, and itself


@contextlib.contextmanager
def _draft(path: Path) -> Iterator[Path]:
    """A new empty file beside a path, for its owner alone, until the end. It has its name only once
    it is locked, until then another one."""
    begun = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(begun, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    draft = begun.with_name(f"{begun.name}.draft")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.rename(begun, draft)
        yield draft
    finally:
        _remove(draft)
        os.close(descriptor)


def _remove(draft: Path) -> None:
    for ending in _BESIDE:
        draft.with_name(f"{draft.name}{ending}").unlink(missing_ok=True)


def remove_drafts(path: Path) -> list[str]:
    """Remove the drafts of a ledger, or of a copy of it, that a process left when it was killed,
    and return their names. A draft that some process uses is locked."""
    removed = []
    with _reported(path, "tidied"):
        for draft in sorted(path.parent.glob(f".{escape(path.name)}.*.draft")):
            with contextlib.suppress(FileNotFoundError, BlockingIOError), draft.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(draft)
                removed.append(draft.name)
    return removed


@contextlib.contextmanager
def _reported(path: Path, doing: str) -> Iterator[None]:
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        raise LedgerError(
            f"{path} cannot be {doing}",
            detail=(error.strerror if isinstance(error, OSError) else None) or str(error),
            hint="Check the folder, its permissions, and that the disk is not full.",
        ) from error
