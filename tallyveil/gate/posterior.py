"""The posteriors of the true answers to a statement, given history (BAYES §4).

They are about the aggregates of records, group by group, before the statement computes anything
from them. The prior is flat: on the reals for answers with additive noise, and on 0..n for those of
a mechanism with a public range. All follows from released answers; nothing is bought.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sqlglot import exp, parse_one
from sqlglot.errors import SqlglotError

from tallyveil.errors import FeatureNotSupported
from tallyveil.gate.deciding.outcome import Answered
from tallyveil.knowledge import Known
from tallyveil.rewriter import NoisyTable, Plan

__all__ = ["RowPosterior", "posteriors"]


@dataclass(frozen=True, eq=False)
class RowPosterior:
    """About one aggregate of one group: ``group`` is its keys' values by name, ``answer`` the
    aggregate's name. ``known`` is None if history does not determine it; then nothing below may be
    called. ``unit`` is the size of a lattice step in the answer.
    """

    group: Mapping[str, Any]
    answer: str
    known: Known | None
    unit: Fraction

    @property
    def value(self) -> float:
        """The answer; of an estimate, before it is rounded to a step."""
        return float(self.unit) * self._row.value

    @property
    def deviation(self) -> float:
        """The posterior's standard deviation; about the answer, where that is not its mean."""
        return float(self.unit) * self._row.error.deviation

    def interval(self, confidence: Fraction) -> tuple[float, float]:
        """The interval as in SQL: its ends are possible answers."""
        _, low, high = self._row.interval(confidence)
        return float(self.unit * low), float(self.unit * high)

    def quantile(self, probability: float) -> float:
        """A value such that the truth is at most that with this probability, or a little more.

        Raises InvalidParameterValue unless 0 < probability < 1.
        """
        return float(self.unit) * self._row.quantile(probability)

    @property
    def _row(self) -> Known:
        if self.known is None:
            raise ValueError("history does not determine it")
        return self.known


def posteriors(plan: Plan, answered: Answered) -> list[RowPosterior]:
    """Return posteriors in the order of the groups, and within each in that of its aggregates.

    Raises FeatureNotSupported if answers are sums of others, or not sums over records.
    """
    if plan.histograms:
        raise FeatureNotSupported("distinct counts and quantiles have no posterior here")
    found = []
    names = _names(plan.sql)
    for table in plan.noisy:
        keys = [name for name in table.keys.column_names if name.startswith("__k")]
        values = {name: table.keys.column(name).to_pylist() for name in keys}
        columns = [_answers(table, number, answered) for number in range(len(table.outputs))]
        for row in range(table.height):
            group = {
                names.get(name, f"key {n + 1}"): values[name][row] for n, name in enumerate(keys)
            }
            for number, (output, known) in enumerate(zip(table.outputs, columns, strict=True)):
                unit = plan.workloads[output.table].columns[output.column].multiplier
                answer = names.get(f"__c{number}", f"aggregate {number + 1}")
                found.append(RowPosterior(group, answer, known[row], unit))
    return found


def _answers(table: NoisyTable, number: int, answered: Answered) -> list[Known | None]:
    output = table.outputs[number]
    if output.summed:
        raise FeatureNotSupported(
            "an answer that is a sum of others has no posterior here",
            hint="Ask for the groups of one grouping set.",
        )
    known = answered.columns[output.table][output.column]
    return [known[row] for row in (range(table.height) if output.rows is None else output.rows)]


def _names(sql: str) -> dict[str, str]:
    """The statement's names of the keys and aggregates that it selects unchanged."""
    try:
        tree = parse_one(sql, dialect="duckdb")
    except SqlglotError:
        return {}
    names: dict[str, str] = {}
    if isinstance(tree, exp.Select):
        for selected in tree.selects:
            inner = selected.unalias()
            if isinstance(inner, exp.Column) and inner.name.startswith("__"):
                names.setdefault(inner.name, selected.alias_or_name)
    return names
