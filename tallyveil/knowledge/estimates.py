"""Joint estimates of a statement's rows, and the linear system they come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tallyveil.inference import Combination, Determined
from tallyveil.knowledge.answers.answers import Answers
from tallyveil.knowledge.system import System
from tallyveil.workload.workload import Column

__all__ = ["Estimates"]


@dataclass(frozen=True, eq=False)
class Estimates:
    """Estimates of the rows of a statement's ``columns`` from the first ``seen`` recorded columns,
    and the linear system they come from.

    ``undetermined``: history H determines no combination of the rows Q but 0. Then it does not help
    once all of Q is bought: if A H + a Q = q_i, then A H lies in the span of both Q and H and is 0,
    and A = 0 has the least variance.
    """

    columns: tuple[int, ...]
    seen: int
    rows: tuple[Answers, ...]
    system: System | None = None
    undetermined: bool = False
    chosen: tuple[tuple[int, ...], int] | None = None
    """The recorded columns used and the work allowed, if nothing else determines the estimates."""
    determined: Determined | None = None
    """The combinations of all rows that the system determines, if known."""
    given_up: bool = False
    """Whether it took too much work to find out which rows the system or, if ``undetermined``, all
    recorded columns determine."""

    @property
    def examined(self) -> bool:
        """False if the rows were skipped because they are too many or too large."""
        return self.system is not None or self.undetermined

    @property
    def unknown(self) -> int:
        """The number of rows without an estimate."""
        return sum(len(own) - own.known_rows for own in self.rows)

    @property
    def weight(self) -> int:
        """About its bytes."""
        known = [len(one.numbers) for own in self.rows for one in own.estimates if one is not None]
        system = 0 if self.system is None else 2 * self.system.nbytes  # and its rows' exact sums
        chosen = 0 if self.chosen is None else 8 * len(self.chosen[0])
        determined = 0 if self.determined is None else self.determined.nbytes
        return 200 + system + chosen + determined + 150 * len(known) + 8 * sum(known)

    @classmethod
    def nothing(cls, which: tuple[int, ...], columns: Sequence[Column], seen: int) -> Estimates:
        """No estimates."""
        return cls(which, seen, tuple(Answers.unknown(column.height) for column in columns))

    def estimated(
        self, system: System, combinations: Sequence[Combination | None] | None = None
    ) -> Estimates:
        """Return these with the estimates of a system for the same columns; solves it unless
        its ``combinations`` are given."""
        determined, given_up = None, False
        if combinations is None:
            estimates, found = system.solved()
            determined, given_up = found.determined, found.given_up
        else:
            estimates = system.estimates(combinations)
        rows, start = [], 0
        for own in self.rows:
            rows.append(Answers.estimated(estimates[start : start + len(own)]))
            start += len(own)
        known = tuple(rows)
        return Estimates(
            self.columns, self.seen, known, system, determined=determined, given_up=given_up
        )
