"""Statements whose conditions on records compare with answers: these are released first.

Each is a statement by itself, charged by itself, and what it answers is public: the statement that
compares with it is planned with its answer as constants. That purchase depends on noise, but on
nothing confidential. Before the first is charged, all are planned with examples of the answers:
what cannot be planned or paid is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, Final, TypeAlias

import pyarrow as pa

from tallyveil import deadline
from tallyveil.accountant import Quote
from tallyveil.accountant.budgets.quote import exceeded
from tallyveil.errors import (
    AnswerNeeded,
    BinCut,
    CardinalityViolation,
    FeatureNotSupported,
    SQLSyntaxError,
    StatementError,
    UndefinedTable,
    positions_from,
)
from tallyveil.gate.answering import Answering
from tallyveil.gate.interface import Notice
from tallyveil.gate.notices import warnings
from tallyveil.gate.rows import EXAMPLES, example_tables
from tallyveil.rewriter import (
    Dialect,
    InnerAnswer,
    Pivot,
    Plan,
    Query,
    constant,
    depends_on_noise,
    inner_answer,
    query_of,
    read_pivot,
    split,
    types_of,
)

__all__ = ["Given", "Stage", "Staging", "announced"]

Given: TypeAlias = tuple[Sequence[Any], Sequence[str | None]]
"""A statement's parameters, and the types they were declared with."""

_ROUND: Final = "The subquery's answer is not always one of them: round it there"


@dataclass(frozen=True)
class Stage:
    """A query to answer. ``inner`` says where its answer goes; it is None for the last one."""

    query: Query
    plan: Plan
    inner: InnerAnswer | None


_Stages: TypeAlias = Generator[Stage, Sequence[Any], Sequence[Any]]
"""Yields a stage and takes the values that it answers."""


@dataclass(eq=False)
class Staging:
    """The stages of one session's statements; used by one thread at a time."""

    answering: Answering

    def rehearsed(self, query: Query, given: Given) -> list[Stage]:
        """The stages with examples of the answers: free of charge. What could not be planned with
        other answers is refused: one that is a step of an attribute may be so by chance."""
        found = self._run(query, given, partial(self._example, number=0))
        if len(found) > 1 and any(map(self._can_be_cut, found)):
            for number in range(1, EXAMPLES):
                self._run(query, given, partial(self._example, number=number))
        return found

    def _can_be_cut(self, stage: Stage) -> bool:
        """Whether a cell of its tables has several values, between which an answer may lie."""
        tables = self.answering.planner.gate.policy.tables
        every = (one for table in stage.plan.workloads for one in tables[table].domain.attributes)
        return any(one.step or one.edges or one.truncates or one.prefix for one in every)

    def answered(
        self, query: Query, given: Given, after: ExitStack
    ) -> tuple[Stage, tuple[Notice, ...]]:
        """The last stage, after the answers to the others are released, and the notices of these.
        Errors that pass ``after`` from then on report what was charged."""
        notices: list[Notice] = []

        def released(stage: Stage) -> list[Any]:
            self._refuse_unknown(stage)
            found = self.answering.release(stage.plan, stage.query, lambda _: len, after)
            self.answering.planner.compared = True
            for one in (*warnings(stage.plan, stage.query.offset), *found.notices):
                notices.append(replace(one, message=f"subquery: {one.message}"))
            return list(self._values(stage, found.tables).to_pylist())

        self._refuse_costs(self.rehearsed(query, given))
        return self._run(query, given, released)[-1], tuple(notices)

    def _examples(self, plan: Plan, number: int = 0) -> dict[str, pa.Table]:
        return example_tables(plan, number) | self.answering.planner.relations(plan)

    def _example(self, stage: Stage, number: int) -> list[Any]:
        """Values that a stage may answer, with which a condition can hold: those of the example of
        this number. If these are none, or NULL, keys of the domain, or 0."""
        found = self._values(stage, self._examples(stage.plan, number))
        if found.null_count < len(found):
            return list(found.to_pylist())
        keys = (key for table in stage.plan.noisy for key in table.keys.columns)
        for key in (one.drop_null() for one in keys if one.type == found.type):
            if len(key):
                return list(key.unique()[:1].to_pylist())
        return [0] if _is_number(found.type) else [None]

    def _refuse_unknown(self, stage: Stage) -> None:
        """What history does not determine is NULL, with which nothing can be compared."""
        planner = self.answering.planner
        request = planner.request(stage.plan, stage.query)
        if request.source == "history" and not planner.back.knows(request):
            raise FeatureNotSupported(
                "history does not determine the subquery, with which the statement compares",
                hint="SET dp.source = auto buys it, or ask about what history knows.",
                position=stage.query.offset + 1,
            )

    def _run(
        self, query: Query, given: Given, answer: Callable[[Stage], Sequence[Any]]
    ) -> list[Stage]:
        found: list[Stage] = []
        stages = self._stages(query, given, None)
        stage = next(stages)
        while stage.inner is not None:
            found.append(stage)
            stage = stages.send(answer(stage))
        return [*found, stage]

    def _stages(self, query: Query, given: Given, around: InnerAnswer | None) -> _Stages:
        planner = self.answering.planner
        try:
            plan = planner.best(query, *given)
        except AnswerNeeded as error:
            refused = error
        else:
            return (yield Stage(query, plan, around))
        pivot = read_pivot(query.sql, split(query.sql, query.dialect)[0].tokens)
        values, declared = given
        whole = query if pivot is None else query_of(pivot.stand_in, query.dialect)
        types = planner.types(whole, declared or types_of(values))

        def needed(part: Query) -> Given:
            return values[: part.parameters], types[: part.parameters]

        if pivot is not None:
            select = self._unpivoted(pivot, query.dialect, needed)
            return (yield from self._stages(select, needed(select), around))
        inner = None if refused.position is None else inner_answer(query, refused.position)
        if inner is None:
            deadline.check()  # one that was stopped is refused for that
            raise refused
        with positions_from(inner.query.offset):
            try:
                found = yield from self._stages(inner.query, needed(inner.query), inner)
            except UndefinedTable as error:  # the statement as a whole names none
                raise FeatureNotSupported(
                    "a subquery over protected tables cannot refer to the query around it",
                    hint="Compare groups above the aggregation: SELECT a, n FROM (SELECT a, "
                    "count(*) AS n FROM … GROUP BY a) AS t WHERE n > (SELECT avg(n) FROM …).",
                    position=error.position,
                ) from None
        constants = inner.constants(found)
        text = f"{query.sql[: inner.start]}{constants}{query.sql[inner.end :]}"
        outer = replace(query_of(text, query.dialect), offset=query.offset)
        with _moved(inner, len(constants)):
            try:
                return (yield from self._stages(outer, needed(outer), around))
            except BinCut as error:
                if inner.start < (error.position or 0) <= inner.start + len(constants):
                    step = f", as in (SELECT round(avg(a) / {error.step}) * {error.step} FROM …)"
                    error.hint = f"{_ROUND}{step if error.step else ''}."
                raise

    def _unpivoted(self, pivot: Pivot, dialect: Dialect, needed: Callable[[Query], Given]) -> Query:
        """The SELECT that a PIVOT is. Its keys are read free of charge: those of the domain."""
        planner = self.answering.planner

        def read(sql: str) -> pa.Table:
            query = query_of(sql, dialect)
            plan = planner.best(query, *needed(query))
            if any(table.outputs for table in plan.noisy) and depends_on_noise(plan.sql):
                raise FeatureNotSupported(
                    "the columns of this PIVOT would depend on noise",
                    hint="List them: ON sex IN ('F', 'M').",
                )
            with planner.cursor.tables(self._examples(plan)):
                return planner.cursor.arrow(plan.sql)

        keys = []
        for key, listed in pivot.on:
            if listed:
                keys.append([(one, one.strip("'").replace("''", "'")) for one in listed])
            else:
                found = read(pivot.keys(key)).column(0).drop_null().to_pylist()
                named = (str(one).lower() if isinstance(one, bool) else str(one) for one in found)
                values = [constant(one, dialect) for one in found]
                keys.append([*zip(values, named, strict=True)])
        columns = () if pivot.group else read(pivot.columns).column_names
        return query_of(pivot.select(keys, columns), dialect)

    def _values(self, stage: Stage, tables: dict[str, pa.Table]) -> pa.ChunkedArray:
        """The values that a stage answers.

        Raises SQLSyntaxError for several columns, and CardinalityViolation for several rows where
        one value is compared.
        """
        cursor, place = self.answering.planner.cursor, stage.query.offset + 1
        with cursor.tables(tables):
            table = cursor.arrow(stage.plan.sql)
        if table.num_columns != 1:
            raise SQLSyntaxError("subquery must return only one column", position=place)
        if stage.inner is not None and not stage.inner.listed and table.num_rows > 1:
            raise CardinalityViolation(
                "more than one row returned by a subquery used as an expression",
                hint="Add LIMIT 1, or write IN (SELECT …).",
                position=place,
            )
        return table.column(0)

    def _refuse_costs(self, stages: Sequence[Stage]) -> None:
        """Raise BudgetExceeded if several stages together cost more than remains."""
        planner, spent = self.answering.planner, dict[tuple[str, str | None], Fraction]()
        for stage in stages if len(stages) > 1 else ():
            request = planner.request(stage.plan, stage.query)
            quote = planner.back.forecast(request).quote or Quote(())
            for one in (*quote.tables, *quote.shares):
                owner = one.table, one.analyst
                spent[owner] = spent.get(owner, Fraction(0)) + one.cost
                if not one.allowed or spent[owner] > one.remaining_before:
                    raise exceeded(replace(one, cost=spent[owner]))


def announced(stages: Sequence[Stage], stage: Stage) -> Iterator[str]:
    """The lines of EXPLAIN before those of a stage, if there are several."""
    if stage.inner is not None:
        yield f"Answered first, at a cost of its own: {stage.query.sql}"
    elif len(stages) > 1:
        yield f"Then the statement, with these answers as constants: {stage.query.sql}"
        yield "  They are not known before they are bought: these are examples of what they may be"


def _is_number(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))


@contextmanager
def _moved(inner: InnerAnswer, length: int) -> Iterator[None]:
    """Positions of errors behind constants of this length, in the statement that was written."""
    try:
        yield
    except StatementError as error:
        if error.position is not None and error.position > inner.start:
            behind = error.position - inner.start - length
            error.position = inner.end + behind if behind > 0 else inner.start + 1
        raise
