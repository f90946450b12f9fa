"""The recorded noisy answers in memory, and the best known of each row ever asked."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tallyveil.accountant.derivation import Derivation, decode_derivation
from tallyveil.accountant.ledger import StoredDerivation
from tallyveil.accountant.values import Answer, Recorded
from tallyveil.mechanisms import mechanism
from tallyveil.mechanisms.sanitiser import Sanitiser
from tallyveil.workload.workload import Column

__all__ = ["Asked", "Memory"]


@dataclass(frozen=True)
class Asked:
    """A charge whose answer is still to come."""

    table: str
    mechanism: str
    columns: tuple[Column, ...]
    scales: tuple[float, ...]

    @property
    def heights(self) -> tuple[int, ...]:
        return tuple(column.height for column in self.columns)


class Memory:
    """Rows are known by their table and `Column.row_keys`; the answer of least spread is best.

    Answers with additive noise, of whichever law, are compared with each other, and answers of a
    mechanism with a public range with its own only. An exact answer is one with no noise.

    Among equals the first answer stays, so that a question keeps its answer.
    """

    def __init__(self) -> None:
        self._asked: dict[int, Asked] = {}
        self._best: dict[tuple[str, str | None], dict[bytes, Recorded]] = {}
        self._answers: dict[str, list[Answer]] = {}
        self._states: dict[str, int] = {}
        self._derivations: dict[str, list[Derivation]] = {}
        self._derived: Counter[tuple[str, str]] = Counter()

    def expect(self, charge_id: int, asked: Asked) -> None:
        self._asked[charge_id] = asked
        self._states[asked.table] = self.state(asked.table) + 1

    def awaited(self, charge_id: int) -> Asked | None:
        """The charge, unless it is unknown here or answered already."""
        return self._asked.get(charge_id)

    def learn(self, charge_id: int, values: Sequence[Sequence[int]]) -> None:
        """Take in the answer of an awaited charge."""
        asked = self._asked[charge_id]
        noise = mechanism(asked.mechanism)
        for column, scale, answers in zip(asked.columns, asked.scales, values, strict=True):
            self._answers.setdefault(asked.table, []).append(
                Answer(charge_id, asked.mechanism, column, scale, tuple(answers))
            )
            spread = noise.spread(scale)
            own = asked.mechanism if noise.needs.public_range and scale else None
            best = self._best.setdefault((asked.table, own), {})
            for key, value in zip(column.row_keys, answers, strict=True):
                known = best.get(key)
                if known is None or spread < known.spread:
                    best[key] = Recorded(charge_id, value, scale, asked.mechanism, spread)
        del self._asked[charge_id]
        self._states[asked.table] = self.state(asked.table) + 1

    def recall(
        self, table: str, row_keys: Sequence[bytes], own: str | None
    ) -> list[Recorded | None]:
        best = self._best.get((table, own), {})
        return [best.get(key) for key in row_keys]

    def answers(self, table: str, start: int) -> list[Answer]:
        """Those of a table from number ``start`` on, in the order they were recorded."""
        return self._answers.get(table, [])[start:]

    def pending(self, table: str) -> list[Answer]:
        """The columns of charges that are not answered; their values are NaN. Of copies of records
        there are none: nobody estimates counts from these."""
        return [
            Answer(charge_id, asked.mechanism, column, scale, (math.nan,) * column.height)
            for charge_id, asked in self._asked.items()
            if asked.table == table and asked.mechanism != Sanitiser.name
            for column, scale in zip(asked.columns, asked.scales, strict=True)
        ]

    def state(self, table: str) -> int:
        return self._states.get(table, 0)

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

    def recorded(self, table: str) -> int:
        return len(self._answers.get(table, ()))
