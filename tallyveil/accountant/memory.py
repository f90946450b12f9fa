"""The recorded noisy answers in memory, and the charges that await theirs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tallyveil.accountant.derivation import Derivation, decode_derivation
from tallyveil.accountant.ledger import StoredDerivation
from tallyveil.accountant.values import Answer
from tallyveil.mechanisms.records.sanitiser import Sanitiser
from tallyveil.workload.workload import Column

__all__ = ["Asked", "Memory"]


@dataclass(frozen=True)
class Asked:
    """A charge whose answer is still to come."""

    table: str
    mechanism: str
    columns: tuple[Column, ...]
    scales: tuple[float, ...]
    law: str | None

    @property
    def heights(self) -> tuple[int, ...]:
        return tuple(column.height for column in self.columns)


class Memory:
    """What was charged, what was answered, and how estimates were made, by table."""

    def __init__(self) -> None:
        self._asked: dict[int, Asked] = {}
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
        for column, scale, answers in zip(asked.columns, asked.scales, values, strict=True):
            self._answers.setdefault(asked.table, []).append(
                Answer(charge_id, asked.mechanism, column, scale, tuple(answers), asked.law)
            )
        del self._asked[charge_id]
        self._states[asked.table] = self.state(asked.table) + 1

    def answers(self, table: str, start: int) -> list[Answer]:
        """Those of a table from number ``start`` on, in the order they were recorded."""
        return self._answers.get(table, [])[start:]

    def pending(self, table: str) -> list[Answer]:
        """The columns of charges that are not answered; their values are NaN. Of copies of records
        there are none: nobody estimates counts from these."""
        return [
            Answer(
                charge_id, asked.mechanism, column, scale, (math.nan,) * column.height, asked.law
            )
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
