"""What was charged and answered, in memory: decoded once somebody looks at it."""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import TypeAlias

from tallyveil.accountant.charges import Answer, Charge
from tallyveil.accountant.codec import decode_answers
from tallyveil.accountant.derivation import Derivation, decode_derivation
from tallyveil.accountant.ledger import StoredDerivation
from tallyveil.mechanisms import answered

__all__ = ["Memory", "Noisy", "Release"]

Noisy: TypeAlias = tuple[tuple[int, ...], ...]


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
    """What was charged, what was answered, and how estimates were made, by table. Used under the
    accountant's lock."""

    def __init__(self) -> None:
        self._asked: dict[int, Release] = {}
        self.elsewhere: dict[int, tuple[float, Charge]] = {}
        """Charges of other processes that are not answered, and since when they are known."""
        self._recorded: dict[str, list[Release]] = defaultdict(list)
        self._states: Counter[str] = Counter()
        self._derivations: dict[str, list[Derivation]] = {}
        self._derived: Counter[tuple[str, str]] = Counter()

    def expect(self, asked: Release) -> None:
        self._asked[asked.charge_id] = asked
        self._states[asked.table] += 1

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

    def awaited(self, charge_id: int) -> Release | None:
        """The charge, unless it is unknown here or answered already."""
        return self._asked.get(charge_id)

    def learn(self, charge_id: int, noisy: Noisy | bytes) -> None:
        """Take in the answer of an awaited charge."""
        asked = self._asked.pop(charge_id)
        self.elsewhere.pop(charge_id, None)
        asked.noisy = noisy
        self._recorded[asked.table].append(asked)
        self._states[asked.table] += 1

    def releases(self, table: str, start: int) -> list[Release]:
        """Those of a table that are answered, from number ``start`` on, in the order in which they
        were recorded."""
        return self._recorded[table][start:]

    def pending(self, table: str) -> list[Answer]:
        """The columns of charges that are not answered; their values are NaN. Of what is
        not recorded there are none: nobody estimates counts from it."""
        return [
            answer
            for asked in self._asked.values()
            if asked.table == table and answered(asked.mechanism)
            for answer in asked.answers
        ]

    def state(self, table: str) -> int:
        return self._states[table]

    def recorded(self, table: str) -> int:
        """How many charges are answered."""
        return len(self._recorded[table])

    def derive(self, stored: StoredDerivation) -> None:
        derivation = decode_derivation(stored.body)
        self._derivations.setdefault(stored.table, []).append(derivation)
        self._derived[stored.table, stored.analyst] += len(stored.body)

    def derivations(self, table: str, start: int) -> list[Derivation]:
        """As `releases`."""
        return self._derivations.get(table, [])[start:]

    def derived_bytes(self, table: str, analyst: str) -> int:
        """Of the derivations of estimates that an analyst was given."""
        return self._derived[table, analyst]
