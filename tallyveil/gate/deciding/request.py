"""What a session asks of the decision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tallyveil.errors import FeatureNotSupported
from tallyveil.gate.settings import Answers, Settings, Target
from tallyveil.mechanisms import AUTO, BY_DESIGN, BY_INVARIANTS, EXTENDED, TOGETHER
from tallyveil.rewriter import Plan, Workload
from tallyveil.workload.workload import Summed

__all__ = ["Request", "request_of"]


@dataclass(frozen=True)
class Request:
    """What one statement asks, and how: ``workloads`` by table, what is ``summed`` up from them,
    ``mechanism`` a name or "auto".

    The answers about tables in ``additive`` need noise that is added, for they are added up, or
    their intervals are to hold at all looks. ``custodian``:
    it is the custodian who asks, and needs no share of a budget. ``nonnegative``: counts are
    reported as 0 at least. ``by_invariants``: a name of `mechanisms.BY_INVARIANTS` that says what
    is charged, None for what serves the ledger best.
    """

    workloads: Mapping[str, Workload]
    target: Target
    source: Answers
    mechanism: str
    sql: str
    analyst: str
    additive: frozenset[str] = frozenset()
    custodian: bool = False
    nonnegative: bool = False
    by_invariants: str | None = None
    summed: Mapping[str, tuple[Summed, ...]] = field(default_factory=dict)


def request_of(plan: Plan, settings: Settings, sql: str, analyst: str) -> Request:
    """What ``sql`` asks with these settings.

    Raises FeatureNotSupported for intervals over all looks of a mechanism that has none.
    """
    workloads = {t: w for t, w in plan.workloads.items() if w.columns}
    additive = frozenset(plan.summed)
    if settings.all_looks:
        if settings.ranged:
            raise FeatureNotSupported(
                "dp.coverage = always needs noise that is added, and dp.mechanism is"
                f" {settings.mechanism}",
                hint="SET dp.coverage = once, or SET dp.mechanism = auto.",
            )
        additive = frozenset(workloads)
    mechanism, by_invariants = settings.mechanism, None
    if mechanism in TOGETHER and settings.all_looks:
        raise FeatureNotSupported(
            "dp.coverage = always needs noise of each row that is independent of the others', and"
            f" dp.mechanism is {mechanism}",
            hint="SET dp.coverage = once, or SET dp.mechanism = imaged.",
        )
    if mechanism in BY_INVARIANTS:
        additive, by_invariants = frozenset(workloads), mechanism
        mechanism = "gaussian" if mechanism in (EXTENDED, *BY_DESIGN) else AUTO
    return Request(
        workloads,
        settings.target,
        settings.source,
        mechanism,
        sql,
        analyst,
        additive,
        nonnegative=settings.nonnegative,
        by_invariants=by_invariants,
        summed=plan.summed,
    )
