"""What was charged and answered, in memory: decoded once somebody looks at it."""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeAlias

from tallyveil.accountant.charges import Answer, Charge
from tallyveil.accountant.derivation import Derivation, decode_derivation
from tallyveil.accountant.ledger.chain import StoredCharge
from tallyveil.accountant.ledger.codec import decode_answers, decode_charge
from tallyveil.accountant.ledger.ledger import StoredDerivation
from tallyveil.mechanisms import answered

__all__ = ["Memory", "Noisy", "Release"]

Noisy: TypeAlias = tuple[tuple[int, ...], ...]

# Of derivations, by table and analyst: those of half a million rows.
_DERIVED_BYTES: Final = 1 << 22


class Release:
    """A charge, which ``decoded`` gives, and what was answered, as `codec.encode_answers` writes
    it if that is bytes, None before it is recorded. Threads may share it."""

    __slots__ = ("_answers", "charge_id", "decoded", "mechanism", "noisy", "table")

    def __init__(
        self, charge_id: int, table: str, mechanism: str, decoded: Callable[[], Charge]
    ) -> None:
        self.charge_id = charge_id
        self.table = table
        self.mechanism = mechanism
        self.decoded = decoded
        self.noisy: Noisy | bytes | None = None
        self._answers: tuple[Answer, ...] = ()

    @classmethod
    def of(cls, stored: StoredCharge) -> Release:
        """Of a charge as the ledger holds it."""
        row = stored.table, stored.mechanism
        return cls(stored.id, *row, partial(decode_charge, *row, stored.columns))

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


class Memory:
    """What was charged, what was answered, and how estimates were made. Used under the accountant's
    lock."""

    def __init__(self) -> None:
        self.asked: dict[int, Release] = {}
        """Charges that are not answered, by number."""
        self.elsewhere: dict[int, tuple[float, Charge]] = {}
        """Those of other processes, and since when they are known."""
        self.recorded: dict[str, list[Release]] = defaultdict(list)
        """By table those that are answered, in the order in which they were recorded."""
        self.states: Counter[str] = Counter()
        """By table a number that grows with all that is charged or recorded."""
        self.derivations: dict[str, list[Derivation]] = defaultdict(list)
        self.derived: Counter[tuple[str, str]] = Counter()
        """The bytes of these, by table and the analyst who was given the estimates."""

    def expect(self, asked: Release) -> None:
        self.asked[asked.charge_id] = asked
        self.states[asked.table] += 1

    def expect_elsewhere(self, charge_id: int, charge: Charge) -> None:
        """The charge that is expected is another process's. Nobody waits for what is never
        recorded."""
        if answered(charge.mechanism):
            self.elsewhere[charge_id] = time.monotonic(), charge

    def charged_elsewhere(self, since: float) -> list[Charge]:
        """What other processes are answering, if it is known only since then. The others are not
        looked at again."""
        self.elsewhere = {n: one for n, one in self.elsewhere.items() if one[0] > since}
        return [charge for _, charge in self.elsewhere.values()]

    def learn(self, charge_id: int, noisy: Noisy | bytes) -> None:
        """Take in the answer of a charge that was asked."""
        asked = self.asked.pop(charge_id)
        self.elsewhere.pop(charge_id, None)
        asked.noisy = noisy
        self.recorded[asked.table].append(asked)
        self.states[asked.table] += 1

    def pending(self, table: str) -> list[Answer]:
        """The columns of charges that are not answered; their values are NaN. Of what is
        not recorded there are none: nobody estimates counts from it."""
        return [
            answer
            for asked in self.asked.values()
            if asked.table == table and answered(asked.mechanism)
            for answer in asked.answers
        ]

    def room_for_derivations(self, table: str, analyst: str) -> int:
        """How many bytes more are kept of estimates of a table that an analyst is given."""
        return _DERIVED_BYTES - self.derived[table, analyst]

    def derive(self, stored: StoredDerivation) -> None:
        self.derivations[stored.table].append(decode_derivation(stored.body))
        self.derived[stored.table, stored.analyst] += len(stored.body)
