"""Charges and answers in memory, decoded when they are first used."""

from __future__ import annotations

import itertools
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from tallyveil.accountant.charges import Answer, Charge
from tallyveil.accountant.derivation import Derivation, decode_derivation
from tallyveil.accountant.migrations import NONE, Lineage
from tallyveil.accountant.store.event_codec import decode_answers, decode_charge
from tallyveil.accountant.store.ledger_records import ChargeRecord, DerivationRecord
from tallyveil.mechanisms import STATISTICS, answered

__all__ = ["Memory", "Noisy", "Of", "Release"]

Noisy: TypeAlias = tuple[tuple[int, ...], ...]

# The most bytes of derivations by table and analyst: about those of half a million rows.
_DERIVED_BYTES: Final = 1 << 22


class Release:
    """A charge and its answer. If they are bytes, `event_codec.encode_charge` has written
    ``charge``, and `event_codec.encode_answers` ``noisy``, which is None before it is recorded.
    It is about a ``version`` of the table, 0 where all rows stay. Threads may share it."""

    __slots__ = (
        "_answers", "_charge", "_lineage", "charge_id", "mechanism", "noisy", "table", "version",
    )  # fmt: skip

    def __init__(
        self,
        charge_id: int,
        table: str,
        mechanism: str,
        charge: Charge | bytes,
        lineage: Lineage = NONE,
    ) -> None:
        self.charge_id = charge_id
        self.table = table
        self.mechanism = mechanism
        self.version = lineage.version(charge_id)
        self.noisy: Noisy | bytes | None = None
        self._charge = charge
        self._lineage = lineage
        self._answers: tuple[Answer, ...] = ()

    @classmethod
    def of(cls, number: int, stored: ChargeRecord, lineage: Lineage) -> Release:
        """The release for a charge in the ledger, over the table's present cells."""
        # All releases share the few names, which would take much memory.
        names = sys.intern(stored.table), sys.intern(stored.mechanism)
        return cls(number, *names, stored.columns, lineage)

    def decoded(self) -> Charge:
        """The charge; decoded anew each time if it is bytes."""
        charge = self._charge
        if isinstance(charge, bytes):
            found = decode_charge(self.table, self.mechanism, charge)
            return self._lineage.charge(self.charge_id, found)
        return charge

    @property
    def answers(self) -> tuple[Answer, ...]:
        """One for each column; values that are not recorded yet are NaN."""
        if not self._answers:
            noisy, charge = self.noisy, self.decoded()
            values: Sequence[Sequence[float]]
            if noisy is None:
                values = [(math.nan,) * height for height in charge.heights]
            else:
                values = (
                    decode_answers(noisy, charge.heights) if isinstance(noisy, bytes) else noisy
                )
            starts, drawn = itertools.accumulate(charge.heights, initial=0), charge.drawn_together
            about, law = (self.charge_id, charge.mechanism), charge.law
            columns = zip(charge.workload.columns, charge.scales, values, starts, strict=False)
            answers = tuple(
                Answer(*about, column, scale, tuple(own), law, drawn, first)
                for column, scale, own, first in columns
            )
            if noisy is None:
                return answers
            self._answers = answers
        return self._answers


class Of(NamedTuple):
    """A table, and a version of it if its rows are replaced, otherwise 0."""

    table: str
    version: int = 0


class Memory:
    """Charges, answers, and how estimates were made. Used under the accountant's lock."""

    def __init__(self) -> None:
        self.asked: dict[int, Release] = {}
        """Unanswered charges, by number."""
        self.elsewhere: dict[int, Charge] = {}
        """Those that other processes may still be answering or reporting, by number."""
        self.recorded: dict[Of, list[Release]] = defaultdict(list)
        """Answered charges for rows, in the order of their answers in the ledger."""
        self.statistics: dict[Of, list[Release]] = defaultdict(list)
        """As ``recorded``, for statistics, from which no counts are estimated."""
        self.derivations: dict[Of, list[Derivation]] = defaultdict(list)
        self.derived: Counter[tuple[str, str]] = Counter()
        """The bytes of these, by table and the analyst to whom the estimates were reported."""

    def expect(self, asked: Release) -> None:
        self.asked[asked.charge_id] = asked

    def learn(self, charge_id: int, noisy: Noisy | bytes) -> None:
        """Add the answer of an expected charge."""
        asked = self.asked.pop(charge_id)
        asked.noisy = noisy
        own = self.statistics if asked.mechanism in STATISTICS else self.recorded
        own[Of(asked.table, asked.version)].append(asked)

    def pending(self, table: str) -> list[Answer]:
        """The columns of unanswered charges, with NaN as values; none for charges from whose
        answers no counts are estimated."""
        return [
            answer
            for asked in self.asked.values()
            if asked.table == table
            and answered(asked.mechanism)
            and asked.mechanism not in STATISTICS
            for answer in asked.answers
        ]

    def room_for_derivations(self, table: str, analyst: str) -> int:
        """The bytes left for derivations of a table's estimates reported to an analyst."""
        return _DERIVED_BYTES - self.derived[table, analyst]

    def derive(self, stored: DerivationRecord, version: int) -> None:
        """Add how estimates about a version were made."""
        own = self.derivations[Of(stored.table, version)]
        own.append(decode_derivation(stored.body))
        self.derived[stored.table, stored.analyst] += len(stored.body)
