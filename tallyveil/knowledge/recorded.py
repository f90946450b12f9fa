"""What was answered about a table, and how reported estimates were made, as it was recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tallyveil.accountant import ROW_BYTES, Answer, Basis, Derivation
from tallyveil.inference import Law, NoiseLaw, Noises
from tallyveil.knowledge.candidates import Candidates
from tallyveil.knowledge.estimated import Criterion, Estimated, Weights
from tallyveil.mechanisms import CountMechanism, mechanism

__all__ = ["RecordedTable"]

_LARGEST = 100_000  # recorded columns of more rows are not looked at
_BASES = 4  # of a row, for as many criteria: the latest


class RecordedTable:
    """Grows in the order of the ledger; whoever lets it grow sees to it that it is one thread."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.values: list[npt.NDArray[np.float64]] = []
        self.noises: list[Noises | None] = []
        self.starts: list[int] = [0]
        self.candidates = Candidates()
        self.holding: dict[bytes, tuple[int, ...]] = {}
        self.of_charge: dict[int, list[int]] = {}
        self.derivations = 0
        self._bases: dict[bytes, Mapping[Criterion, Basis]] = {}

    def learn(self, answer: Answer) -> None:
        number, column = len(self.answers), answer.column
        noises = _noises(answer)
        self.answers.append(answer)
        self.values.append(np.array(answer.values, dtype=np.float64))
        self.noises.append(noises)
        self.starts.append(self.starts[-1] + column.height)
        self.of_charge.setdefault(answer.charge_id, []).append(number)
        if noises is None or not 0 < column.height <= _LARGEST:
            return
        variance = float(noises.variances[0])
        self.candidates.add(number, column, variance)
        here = (number,)  # one object for the keys that are held nowhere else
        for key in column.row_keys:
            before = self.holding.get(key)
            self.holding[key] = here if before is None else before + here

    def derive(self, derivation: Derivation) -> None:
        """For each criterion the latest is the best."""
        self.derivations += 1
        alone = {derivation.by: derivation.basis}  # one object for rows that have no other
        for row in derivation.rows:
            before = self._bases.get(row)
            if before is None:
                self._bases[row] = alone
                continue
            others = [one for one in before.items() if one[0] != derivation.by]
            self._bases[row] = dict(others[1 - _BASES :]) | alone

    def bases(self, key: bytes, by: Criterion = None) -> Sequence[Basis]:
        """What reported estimates of a row were made from, by its key; by this criterion first."""
        found = self._bases.get(key[:ROW_BYTES])
        if found is None:
            return ()
        return tuple(found[one] for one in sorted(found, key=lambda one: one != by))

    def with_own(self, estimate: Estimated | None, number: int, key: bytes) -> Estimated | None:
        """The estimate of a row together with the row's own answer in column ``number``."""
        column, noises = self.answers[number].column, self.noises[number]
        if noises is None or key not in column.row_keys:
            return estimate
        place = column.row_keys.index(key)
        value, noise = float(self.values[number][place]), self.starts[number] + place
        if estimate is None:
            weights = Weights(np.ones(1), noises)
            return Estimated(value, np.array([noise]), weights, Basis(own=(number,)))
        return estimate.mixed(number, noise, value, noises)

    def noises_of(self, numbers: Sequence[int]) -> Noises:
        """Of all rows of some columns, whose noise is added."""
        each = [noises for n in numbers if (noises := self.noises[n]) is not None]
        heights = [self.answers[n].column.height for n in numbers]
        one = Noises.concatenated(each)
        return one.take(np.repeat(np.arange(len(each)), heights))


def _noises(answer: Answer) -> Noises | None:
    """Of one row of a column; None if they are not added."""
    noise = mechanism(answer.mechanism)
    if not answer.scale:
        return Noises.of(Law.DISCRETE_LAPLACE, 0.0)
    return None if isinstance(noise, CountMechanism) else _of_law(noise.law(answer.scale))


def _of_law(law: NoiseLaw) -> Noises:
    return Noises.of(law.family, law.scale)
