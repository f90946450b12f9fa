"""Charges and answers, and their entries in the public history."""

from __future__ import annotations

import datetime as dt
import hashlib
import math
from dataclasses import dataclass
from fractions import Fraction

from tallyveil.accountant.budgets.account import Balance
from tallyveil.accountant.joint_law import Drawn, Joint
from tallyveil.cache import cached_property
from tallyveil.errors import InvalidParameterValue
from tallyveil.inference import NoiseLaw
from tallyveil.invariants import Translate
from tallyveil.mechanisms import recorded_law
from tallyveil.mechanisms.measure import Measure
from tallyveil.mechanisms.records.sanitiser import Sanitiser
from tallyveil.mechanisms.registry import law_name
from tallyveil.workload.histogram import Histogram
from tallyveil.workload.workload import Column, Workload

__all__ = ["Answer", "Charge", "Entry", "OdometerReading", "Spending"]


@dataclass(frozen=True, eq=False)
class Charge:
    """One workload at given noise scales, to be charged. ``scales[c]`` is column c's.

    Scale 0.0 means no noise; the accountant accepts it only for a column that no record can change.
    ``law`` is the ledger's name of the noise's law, by default the mechanism's
    (`mechanisms.registry.law_name`).

    ``translates`` is empty or has an entry for each column, None for a column that is charged as it
    is. A translated row is charged as another row with the same noise, by rows of the counts that
    the ledger has as published. ``plainly`` if all earlier charges of the table are counted as they
    were asked from then on, without their translates.

    ``joint`` is the joint law of noise that is drawn together, None for independent noise.

    With a ``histogram`` the workload is its column, and the mechanism is for statistics, which it
    answers for each group.
    """

    workload: Workload
    mechanism: str
    scales: tuple[float, ...]
    sql: str
    law: str | None = None
    translates: tuple[Translate | None, ...] = ()
    plainly: bool = False
    joint: Joint | None = None
    histogram: Histogram | None = None

    def __post_init__(self) -> None:
        if self.histogram is not None and self.workload.columns != (self.histogram.column,):
            raise InvalidParameterValue("a statistic is of the columns of one histogram")
        if self.law is None:
            object.__setattr__(self, "law", law_name(self.mechanism))
        if self.joint is not None and (self.law is None or self.joint.rows != sum(self.heights)):
            raise InvalidParameterValue("noise that is drawn together has a law and a row for each")
        if self.translates and self.law is None:
            raise InvalidParameterValue("a translate is charged for noise that is added")
        if self.translates and len(self.translates) != len(self.workload.columns):
            raise InvalidParameterValue("a charge needs a translate or none for each column")
        if len(self.scales) != len(self.workload.columns):
            raise InvalidParameterValue("a charge needs one noise scale per column")
        for scale in self.scales:
            if not 0 <= scale < math.inf:
                raise InvalidParameterValue(f"a noise scale is finite and not negative: {scale}")

    @property
    def table(self) -> str:
        return self.workload.table

    @property
    def counts_units(self) -> bool:
        """Whether it asks for numbers of units, not of records."""
        return self.histogram is not None and self.histogram.units

    @property
    def heights(self) -> list[int]:
        """The number of answers about each column."""
        if self.histogram is not None:
            return [self.histogram.height]
        return [column.height for column in self.workload.columns]

    @cached_property
    def drawn_together(self) -> Drawn | None:
        """The joint law of its noise, None if it is independent."""
        if self.joint is None:
            return None
        each = [recorded_law(self.law, scale) for scale in self.scales]
        heights = zip(each, self.heights, strict=True)
        return self.joint.drawn([law for law, height in heights for _ in range(height)])

    @property
    def key(self) -> bytes:
        """The key of what its receipt opens: a histogram, the records of a copy, or counts."""
        if self.histogram is not None:
            digest = hashlib.blake2b(self.mechanism.encode() + b"\0", digest_size=16)
            digest.update(self.workload.key + b"".join(self.histogram.keys))
            return digest.digest()
        copy = self.mechanism == Sanitiser.name
        return self.workload.records_key if copy else self.workload.key


@dataclass(frozen=True, eq=False)
class Answer:
    """The noisy answer to a whole column: ``values[i]`` to row i, in lattice units; integers if
    recorded, NaN if still pending. Its rows start at row ``first`` of the charge, whose noise is
    drawn ``together``, or independently if that is None."""

    charge_id: int
    mechanism: str
    column: Column
    scale: float
    values: tuple[float, ...]
    law_name: str | None
    together: Drawn | None = None
    first: int = 0

    @property
    def law(self) -> NoiseLaw | None:
        """The law of each row's noise, of scale 0 if the answer is exact; None if the error depends
        on the truth."""
        return recorded_law(self.law_name, self.scale)


@dataclass(frozen=True)
class Entry:
    """One charge in the public history; ``cost`` is its cost by itself, in the ``measure`` of the
    budget it was charged to.
    """

    charge_id: int
    time: dt.datetime
    analyst: str
    table: str
    sql: str
    mechanism: str
    cost: Fraction
    measure: Measure
    rows: int


@dataclass(frozen=True)
class Spending:
    """The loss ``spent`` by one analyst's ``charges`` to a table, in ``measure``.

    It is the largest loss of a privacy unit through these charges alone, and ``most_expensive``
    describes the units with this loss. ``share`` is None where the table has no shares.
    """

    table: str
    analyst: str
    charges: int
    spent: Fraction
    exact: bool
    measure: Measure
    share: Balance | None
    most_expensive: str | None


@dataclass(frozen=True)
class OdometerReading:
    """The odometer after a charge: all that its table has ``spent`` by then, in the ``measure`` of
    its present budget; an upper bound where not ``exact``.
    """

    entry: Entry
    spent: Fraction
    exact: bool
    measure: Measure
