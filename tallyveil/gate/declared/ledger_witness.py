"""How far a ledger had come, written beside what was counted: so an older copy is noticed.

The file ``ledger.witness`` of the folder has a `Witness` of the last charge that was seen, and of
the last version of each kind. It is written when a gate opens, when it is closed, when a version is
published, and with a session at most once a minute; whatever reads a policy's ledger looks at it.
It holds nothing confidential.
"""

from __future__ import annotations

import os
import threading
from contextlib import closing
from pathlib import Path

from tallyveil.accountant import Ledger, LedgerStore
from tallyveil.accountant.store.chain import Position
from tallyveil.accountant.store.ledger_copies import WITNESSED, Witness
from tallyveil.accountant.store.ledger_records import ChargeRecord
from tallyveil.errors import LedgerError, OutputError
from tallyveil.files import flush
from tallyveil.policy import Policy

__all__ = ["check_ledger", "check_witness", "witness_folder", "write_witness"]

_NAME = "ledger.witness"


def witness_folder(policy: Policy) -> Path:
    """The folder with a policy's cubes, or with what was counted of versions."""
    return policy.cubes or policy.ledger.with_name(f"{policy.ledger.name}.slices")


def check_ledger(policy: Policy) -> None:
    """`check_witness`, of the ledger that a policy has."""
    with closing(Ledger(policy.ledger, create=False)) as ledger:
        check_witness(witness_folder(policy), ledger)


def check_witness(folder: Path, ledger: LedgerStore) -> None:
    """Raises LedgerError if the ledger lacks charges that the folder's witness saw, and
    InvalidParameterValue if the file is no witness."""
    path = folder / _NAME
    try:
        read = path.read_text(encoding="ascii").split()
        seen = [Position(*Witness.read(one)) for one in read]
    except (FileNotFoundError, NotADirectoryError):
        return
    except (OSError, UnicodeDecodeError) as error:
        raise LedgerError(f"{path} cannot be read: {error}") from None
    with ledger.snapshot() as view:
        for kind, own in zip(WITNESSED, seen, strict=False):
            one = "charge" if kind is ChargeRecord else "version"
            what = one if own.number == 1 else f"{one}s"
            if own.number and not view.outcome(kind, own):
                raise LedgerError(
                    f"the ledger {ledger.name} lacks {one}s that it had before: it is an older"
                    " copy, or another ledger",
                    hint=f"Put back the ledger with {own.number:,} {what} or more. If there is"
                    f" none, treat the budget as spent; then delete {path}.",
                )


def write_witness(folder: Path, text: str) -> None:
    """Write down how far a ledger has come, as `witness_of` says. Raises OutputError."""
    path = folder / _NAME
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished.write_text(text, encoding="ascii")
        flush(unfinished)
        unfinished.replace(path)
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}") from None
