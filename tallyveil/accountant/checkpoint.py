"""A summary of what was spent in the first part of a ledger, as its checkpoint: it opens sooner.

It is a cache, used only if it is complete, was made for the same declarations, and the chains of
the ledger's charges and answers pass through its ends. Then every row up to there is unchanged
since it was read, and so is what follows from it. To show that takes less time with seals:
digests of many rows at a time, whose chain was whole when they were sealed. It also stores what
other rooms derived from a table's first releases. If it is deleted, the ledger takes longer to open
once; nothing else is lost.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tallyveil import __version__
from tallyveil.accountant.background import rest
from tallyveil.accountant.budgets.account import OTHERS, PLANS, Account, Amount
from tallyveil.accountant.budgets.filters import Whose
from tallyveil.accountant.budgets.meter import CellMeter, Meter, PairMeter, Tally
from tallyveil.accountant.readings import Readings
from tallyveil.accountant.store.chain import Position
from tallyveil.accountant.store.ledger_store import LedgerStore, Seal
from tallyveil.arrays import IntArray
from tallyveil.mechanisms.losses.cell_classes import CellClasses
from tallyveil.mechanisms.losses.loss_tensor import Tensor
from tallyveil.mechanisms.losses.pair_loss import ClassLoss

__all__ = ["Arrays", "Summary", "read_summary", "write_summary"]

_FORMAT: Final = 12  # of the file, and of what other rooms derive
_DIGEST: Final = 32
_PORTION: Final = 1 << 20  # bytes that take a millisecond or two to read or write

Arrays: TypeAlias = Mapping[str, npt.NDArray[Any]]
_Named: TypeAlias = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Summary:
    """The state after the ledger's rows up to ``charges`` and ``answers``: the filters' meters, the
    amounts recorded by table and analyst, the odometer's readings, and what other rooms derived by
    table. ``seals`` are of records of a kind, by its name, after a position."""

    charges: Position
    answers: Position
    meters: Mapping[Whose, Meter]
    as_asked: Mapping[Whose, Meter]
    amounts: Mapping[tuple[str, str], Amount]
    readings: Readings
    derived: Mapping[str, Arrays]
    seals: Mapping[tuple[str, Position], Seal]


def read_summary(checkpoint: bytes | None, accounts: Mapping[str, Account]) -> Summary | None:
    """The summary in a ledger's checkpoint, or None if there is none for these accounts. A table
    that it lacks was declared since, or had no charges."""
    if checkpoint is None:
        return None
    content, digest = memoryview(checkpoint)[:-_DIGEST], checkpoint[-_DIGEST:]
    try:
        if hashlib.blake2b(content, digest_size=_DIGEST).digest() != digest:
            return None
        with np.load(io.BytesIO(content), allow_pickle=False) as stored:
            arrays = dict(stored)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
        return None
    about = json.loads(arrays["about"].tobytes())
    if about.get("format") != _FORMAT:
        return None
    keys = _keys(accounts)
    if any(about["keys"].get(table, key) != key for table, key in keys.items()):
        return None
    every = [_meter(one, arrays) for one in about["every"]]

    def meters(name: str) -> dict[Whose, Meter]:
        return {
            (table, analyst): every[n]
            for table, analyst, n in about[name]
            if table in keys
            and (analyst in (None, OTHERS, PLANS) or analyst in (accounts[table].shares or ()))
        }

    charges, answers = (Position(n, bytes.fromhex(chain)) for n, chain in about["ends"])
    return Summary(
        charges,
        answers,
        meters("meters"),
        meters("as_asked"),
        {(t, analyst): Amount(*held) for t, analyst, *held in about["amounts"] if t in keys},
        Readings({name: arrays[f"readings/{name}"] for name in about["readings"]}),
        {
            table: {key: arrays[f"{n}/{key}"] for key in names}
            for n, (table, names) in enumerate(about["derived"])
            if table in keys
        },
        {
            (kind, Position(n, bytes.fromhex(chain))): Seal(
                Position(last, bytes.fromhex(end)), bytes.fromhex(own)
            )
            for kind, n, chain, last, end, own in about["seals"]
        },
    )


def write_summary(ledger: LedgerStore, accounts: Mapping[str, Account], summary: Summary) -> None:
    """Replace the ledger's checkpoint, unless a number is too large for it."""
    readings = summary.readings.written()
    if readings is None:
        return
    arrays: _Named = {}
    every: list[dict[str, Any]] = []
    numbers: dict[int, int] = {}

    def number(meter: Meter) -> int:
        if id(meter) not in numbers:
            numbers[id(meter)] = len(every)
            every.append(_as_json(meter, arrays))
        return numbers[id(meter)]

    about = {
        "format": _FORMAT,
        "keys": _keys(accounts),
        "ends": [(end.number, end.chain.hex()) for end in (summary.charges, summary.answers)],
        "meters": [(*whose, number(meter)) for whose, meter in summary.meters.items()],
        "as_asked": [(*whose, number(meter)) for whose, meter in summary.as_asked.items()],
        "amounts": [(*key, held.rows, held.size) for key, held in summary.amounts.items()],
        "every": every,
        "readings": [*readings],
        "derived": [(table, [*own]) for table, own in summary.derived.items()],
        "seals": [
            (kind, seen.number, seen.chain.hex(), end.number, end.chain.hex(), digest.hex())
            for (kind, seen), (end, digest) in summary.seals.items()
        ],
    }
    for n, own in enumerate(summary.derived.values()):
        arrays |= {f"{n}/{key}": array for key, array in own.items()}
    arrays |= {f"readings/{name}": array for name, array in readings.items()}
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
    body, digest = _Parts(), hashlib.blake2b(digest_size=_DIGEST)
    np.savez(body, allow_pickle=False, **arrays)
    for some in body.portions():
        digest.update(some)
    ledger.write_checkpoint(itertools.chain(body.portions(), (digest.digest(),)))


class _Parts(io.RawIOBase):
    """A file that keeps what is written as it is, without a copy."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, part: Any) -> int:
        rest()  # what writes reads many megabytes at a time
        self._parts.append(bytes(part))  # no copy of bytes
        return len(self._parts[-1])

    def portions(self) -> Iterator[memoryview]:
        """All that was written, in portions between which to `rest`."""
        for part in self._parts:
            for start in range(0, len(part), _PORTION):
                yield memoryview(part)[start : start + _PORTION]
                rest()


def _keys(accounts: Mapping[str, Account]) -> dict[str, str]:
    """For each table everything besides the ledger that the costs of charges depend on.

    Another version of the package may price past charges differently, so it prices them anew.
    """
    return {
        name: repr(
            (
                __version__, one.fingerprint, one.relation, one.measure, sorted(one.shares or ()),
                bool(one.reserved),
                [(axis.name, axis.size) for axis in one.domain.attributes], one.migrated,
            )
        )
        for name, one in accounts.items()
    }  # fmt: skip


def _as_json(meter: Meter, arrays: _Named) -> dict[str, Any]:
    """The meter as JSON, which refers by name to arrays that are added to ``arrays``."""

    def named(values: IntArray) -> str:
        name = f"array{len(arrays)}"
        arrays[name] = values
        return name

    match meter:
        case CellMeter():
            tallies, loss = [meter.tally], None
        case PairMeter():
            tallies, loss = [meter.from_zero, meter.from_midrange], meter.classes

    def written(t: Tensor) -> list[Any]:
        codes = {name: named(own) for name, own in t.codes.items()}
        return [t.axes, named(t.values), t.outside, t.exact, t.alike, codes]

    tensors = [[written(one) for one in tally.groups] for tally in tallies]
    classes = None
    if loss is not None:
        own = loss.classes
        parts = [*map(named, own.kinds)], named(own.labels), own.count, own.outside
        classes = [own.axes, *parts, named(loss.matrix)]
    found = {"measure": meter.measure, "before": [meter.before, meter.reached, meter.apart]}
    return {**found, "tallies": tensors, "classes": classes}


def _meter(about: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Meter:
    tallies = [
        Tally(
            tuple(
                Tensor(
                    tuple(axes),
                    arrays[values],
                    outside,
                    exact,
                    alike,
                    {name: arrays[own] for name, own in codes.items()},
                )
                for axes, values, outside, exact, alike, codes in groups
            )
        )
        for groups in about["tallies"]
    ]
    if len(tallies) == 1:
        return CellMeter(about["measure"], tallies[0], *about["before"])
    classes = None
    if about["classes"] is not None:
        axes, kinds, labels, count, outside, matrix = about["classes"]
        of_axes = tuple(arrays[name] for name in kinds)
        own = CellClasses(tuple(axes), of_axes, arrays[labels], count, outside)
        classes = ClassLoss(own, arrays[matrix])
    return PairMeter(about["measure"], classes, tallies[0], tallies[1], *about["before"])
