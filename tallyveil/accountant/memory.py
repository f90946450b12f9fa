"""What was charged and answered, in memory: decoded once somebody looks at it."""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tallyveil.accountant.codec import decode_answers
from tallyveil.accountant.derivation import Derivation, decode_derivation
from tallyveil.accountant.ledger import StoredDerivation
from tallyveil.accountant.values import Answer, Charge
from tallyveil.mechanisms.records.sanitiser import Sanitiser

__all__ = ["Asked", "Memory", "Noisy"]

Noisy: TypeAlias = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """A charge, which ``decoded`` gives."""

    table: str
    mechanism: str
    decoded: Callable[[], Charge]

    def answers(self, charge_id: int, noisy: Noisy | bytes | None) -> list[Answer]:
        """One for each column; bytes are as `codec.encode_answers` writes them, and NaN stands for
        None."""
        charge = self.decoded()
        heights = charge.heights
        values: Sequence[Sequence[float]]
        if noisy is None:
            values = [(math.nan,) * height for height in heights]
        else:
            values = decode_answers(noisy, heights) if isinstance(noisy, bytes) else noisy
        starts = itertools.accumulate(heights, initial=0)
        drawn = charge.drawn_together
        return [
            Answer(charge_id, charge.mechanism, column, scale, tuple(own), charge.law, drawn, first)
            for column, scale, own, first in zip(
                charge.workload.columns, charge.scales, values, starts, strict=False
            )
        ]


class Memory:
    """What was charged, what was answered, and how estimates were made, by table. Used under the
    accountant's lock."""

    def __init__(self) -> None:
        self._asked: dict[int, Asked] = {}
        self.elsewhere: dict[int, tuple[float, Charge]] = {}
        """Charges of other processes that are not answered, and since when they are known."""
        self._undecoded: dict[str, list[tuple[int, Asked, Noisy | bytes]]] = defaultdict(list)
        self._answers: dict[str, list[Answer]] = defaultdict(list)
        self._recorded: Counter[str] = Counter()
        self._states: Counter[str] = Counter()
        self._derivations: dict[str, list[Derivation]] = {}
        self._derived: Counter[tuple[str, str]] = Counter()

    def expect(self, charge_id: int, asked: Asked) -> None:
        self._asked[charge_id] = asked
        self._states[asked.table] += 1

    def expect_elsewhere(self, charge_id: int, charge: Charge) -> None:
        """The charge that is expected is another process's. Nobody waits for copies of records."""
        if charge.mechanism != Sanitiser.name:
            self.elsewhere[charge_id] = time.monotonic(), charge

    def charged_elsewhere(self, since: float) -> list[Charge]:
        """What other processes are answering, if it is known only since then. The others are not
        looked at again."""
        self.elsewhere = {n: one for n, one in self.elsewhere.items() if one[0] > since}
        return [charge for _, charge in self.elsewhere.values()]

    def awaited(self, charge_id: int) -> Asked | None:
        """The charge, unless it is unknown here or answered already."""
        return self._asked.get(charge_id)

    def learn(self, charge_id: int, noisy: Noisy | bytes) -> None:
        """Take in the answer of an awaited charge."""
        asked = self._asked.pop(charge_id)
        self.elsewhere.pop(charge_id, None)
        self._undecoded[asked.table].append((charge_id, asked, noisy))
        self._recorded[asked.table] += 1
        self._states[asked.table] += 1

    def answers(self, table: str, start: int) -> list[Answer]:
        """Those of a table from number ``start`` on, in the order they were recorded."""
        return self._decoded(table)[start:]

    def pending(self, table: str) -> list[Answer]:
        """The columns of charges that are not answered; their values are NaN. Of copies of records
        there are none: nobody estimates counts from these."""
        return [
            answer
            for charge_id, asked in self._asked.items()
            if asked.table == table and asked.mechanism != Sanitiser.name
            for answer in asked.answers(charge_id, None)
        ]

    def state(self, table: str) -> int:
        return self._states[table]

    def recorded(self, table: str) -> int:
        """How many charges are answered."""
        return self._recorded[table]

    def derive(self, stored: StoredDerivation) -> None:
        derivation = decode_derivation(stored.body)
        self._derivations.setdefault(stored.table, []).append(derivation)
        self._derived[stored.table, stored.analyst] += len(stored.body)

    def derivations(self, table: str, start: int) -> list[Derivation]:
        """As `answers`."""
        return self._derivations.get(table, [])[start:]

    def derived_bytes(self, table: str, analyst: str) -> int:
        """Of the derivations of estimates that an analyst was given."""
        return self._derived[table, analyst]

    def _decoded(self, table: str) -> list[Answer]:
        waiting = self._undecoded[table]
        self._answers[table] += [a for one in waiting for a in one[1].answers(one[0], one[2])]
        waiting.clear()
        return self._answers[table]
