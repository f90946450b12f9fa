"""A request: what one statement asks of the decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final

from tallyveil.errors import FeatureNotSupported, StatementTooComplex
from tallyveil.gate.settings import Answers, Objective, Settings, Target
from tallyveil.mechanisms import AUTO, BY_DESIGN, BY_INVARIANTS, EXTENDED, TOGETHER
from tallyveil.mechanisms.units import text_down
from tallyveil.rewriter import Plan, Workload
from tallyveil.workload.histogram import Histogram
from tallyveil.workload.workload import Summed

__all__ = ["Request", "request_of"]

_DIGITS: Final = 6  # of a probability, which is rounded down
_LOOKS: Final = 100_000  # groups whose intervals hold over all looks: these take longer


@dataclass(frozen=True)
class Request:
    """What one statement asks, and how. ``workloads`` and the columns ``summed`` up from them are
    by table; ``mechanism`` is a name or "auto".

    Tables in ``additive`` need additive noise: their answers are added up, or their intervals hold
    over all looks. ``nonnegative``: counts are reported as at least 0. ``by_invariants``: a name of
    `mechanisms.BY_INVARIANTS` that determines what is charged; None for what serves the ledger
    best. ``all_looks``: intervals hold over all looks. ``together``: how many intervals hold
    together, and at which confidence; the target has that of each. ``objective`` and ``strategy``
    are those settings: of which rows are bought, and by which strategy (`gate/strategies`).
    """

    workloads: Mapping[str, Workload]
    target: Target
    source: Answers
    mechanism: str
    sql: str
    analyst: str
    additive: frozenset[str] = frozenset()
    nonnegative: bool = False
    by_invariants: str | None = None
    summed: Mapping[str, tuple[Summed, ...]] = field(default_factory=dict)
    all_looks: bool = False
    objective: Objective = "auto"
    strategy: str = "auto"
    past: bool = False
    """Whether a former version or moment is asked about, so that nothing can be bought."""
    histograms: Mapping[str, tuple[Histogram, ...]] = field(default_factory=dict)
    """By table: those of which distinct counts and quantiles are asked."""

    @property
    def tables(self) -> list[str]:
        """All tables that it asks about."""
        return list(dict.fromkeys([*self.workloads, *self.histograms]))

    together: tuple[int, Fraction] | None = None


def request_of(plan: Plan, settings: Settings, sql: str, analyst: str) -> Request:
    """Return what ``sql`` asks with these settings.

    Raises FeatureNotSupported for intervals over all looks if the mechanism has none.
    """
    workloads = {t: w for t, w in plan.workloads.items() if w.columns}
    additive = frozenset(plan.summed)
    if settings.all_looks:
        if settings.ranged:
            raise FeatureNotSupported(
                f"dp.coverage = always needs additive noise, but dp.mechanism is"
                f" {settings.mechanism}",
                hint="SET dp.coverage = once, or SET dp.mechanism = auto.",
            )
        additive = frozenset(workloads)
    mechanism, by_invariants = settings.mechanism, None
    if mechanism in TOGETHER and settings.all_looks:
        raise FeatureNotSupported(
            "dp.coverage = always needs independent noise on each row, but dp.mechanism is"
            f" {mechanism}",
            hint="SET dp.coverage = once, or SET dp.mechanism = imaged.",
        )
    height = sum(table.height for table in plan.noisy)
    if settings.all_looks and height > _LOOKS:
        raise StatementTooComplex(
            f"the statement has {height} groups; with dp.coverage = always the limit is {_LOOKS}",
            hint="SET dp.coverage = once, or ask for fewer groups.",
        )
    if mechanism in BY_INVARIANTS:
        additive, by_invariants = frozenset(workloads), mechanism
        mechanism = "gaussian" if mechanism in (EXTENDED, *BY_DESIGN) else AUTO
    target, together = settings.target, None
    if settings.simultaneous:
        target, together = _together(plan, target)
    return Request(
        workloads,
        target,
        settings.source,
        mechanism,
        sql,
        analyst,
        additive,
        nonnegative=settings.nonnegative,
        by_invariants=by_invariants,
        summed=plan.summed,
        all_looks=settings.all_looks,
        objective=settings.objective,
        strategy=settings.strategy,
        histograms=plan.histograms,
        together=together,
    )


def _together(plan: Plan, target: Target) -> tuple[Target, tuple[int, Fraction]]:
    """The target for each of a plan's intervals that hold together with that of ``target``, and
    their number: of n, each misses with 1/n of the probability (Bonferroni), however they depend on
    each other. Some of them may be of the same row."""
    every = plan.workloads.values()
    columns = [c for one in every for n, c in enumerate(one.columns) if n not in one.hidden]
    columns += [one.column for summed in plan.summed.values() for one in summed]
    number = sum(column.height for column in columns)
    number += sum(table.height * len(table.quotients) for table in plan.noisy)
    number += sum(one.height for own in plan.histograms.values() for one in own)
    miss = text_down((1 - target.confidence) / max(number, 1), _DIGITS)
    return replace(target, confidence=1 - Fraction(miss)), (number, target.confidence)
