"""The queries of BAYES §6.4 as SQL, each with a target, to a gate in this process."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np

import tallyveil
from tallyveil.arrays import FloatArray

__all__ = ["Gate"]

ENDLESS = 1e6


class Gate:
    """A table with one attribute, of which ``x`` are the counts of its values."""

    def __init__(self, x: FloatArray, budget: float, confidence: float, folder: Path) -> None:
        counts = x.astype(np.int64).tolist()
        self._source = duckdb.connect()
        self._source.execute(
            "CREATE TABLE records AS SELECT cell FROM"
            " (SELECT unnest(range(len($1))) AS cell, unnest($1) AS n), range(n)",
            [counts],
        )
        policy = tallyveil.parse_policy(
            {
                "tables": {
                    "records": {
                        "budget": {"epsilon": min(budget, ENDLESS)},
                        "attributes": {"cell": {"range": [0, len(counts) - 1]}},
                    }
                }
            },
            base=folder,
        )
        self._connection = tallyveil.connect(policy, source=self._source)
        self._connection.execute(f"SET dp.confidence = {confidence}")
        self._given = 0.0

    @property
    def cost(self) -> float:
        """What was spent on the most expensive cell, but for what was given in advance."""
        return float(self._connection.budget()[0]["spent"]) - self._given

    @property
    def charged(self) -> float:
        return self.cost

    def give(self, levels: Sequence[Sequence[tuple[int, int]]], epsilon: float) -> None:
        """Buy the counts of the ranges of each level, at a share of ε each."""
        self._connection.execute(f"SET dp.epsilon = {epsilon / len(levels)!r}")
        for level in levels:
            counts = ", ".join(
                f"count(*) FILTER (WHERE cell >= {a} AND cell < {b})" for a, b in level
            )
            self._connection.execute(f"SELECT {counts} FROM records")
        self._given += self.cost

    def warm(self, sample: Sequence[FloatArray], epsilon: str) -> None:
        """Buy what serves a sample of the workload, as `tallyveil warm --for FILE` does."""
        session = self._connection._gate.session(dialect="duckdb")
        texts = dict.fromkeys(map(_sql, sample))
        asked = [session.request(one) for one in session.parse(";".join(texts))]
        for board in session.boards(asked):
            session.buy(board.at(Fraction(epsilon)))
        session.close()

    def answer(self, q: FloatArray, half_width: float) -> tuple[float | None, bool]:
        """The answer, if there is one, and whether history had it."""
        self._connection.execute(f"SET dp.half_width = {half_width!r}")
        try:
            cursor = self._connection.execute(_sql(q))
        except tallyveil.BudgetExceeded:
            return None, False
        [(value,)] = cursor.fetchall()
        return float(value), any("free" in notice.message for notice in cursor.notices)

    def close(self) -> None:
        self._connection.close()
        self._source.close()


def _sql(q: FloatArray) -> str:
    cases = " ".join(f"WHEN {cell} THEN {int(q[cell])}" for cell in np.flatnonzero(q))
    return f"SELECT sum(CASE cell {cases} ELSE 0 END) FROM records"
