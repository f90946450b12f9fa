"""Make the `Plan` of a statement, by the passes of `passes`.

Planning reads public facts only, so it charges nothing and may be repeated.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, TypeVar

from sqlglot import exp

from tallyveil import deadline
from tallyveil.errors import StatementTooComplex
from tallyveil.policy.domain import Domain, Key
from tallyveil.rewriter.domain.component_parts import ComponentParts
from tallyveil.rewriter.engine.public_cursor import PublicCursor
from tallyveil.rewriter.exact_counts import check_linear
from tallyveil.rewriter.passes import PLANNING, READING, Draft, Planning
from tallyveil.rewriter.query_plan import Plan
from tallyveil.rewriter.resolve.bound import Bound
from tallyveil.rewriter.resolve.catalog_names import Absent, Catalog, resolve_tables
from tallyveil.rewriter.resolve.definitions import read_views
from tallyveil.rewriter.sql import parameters
from tallyveil.rewriter.sql.nodes import unlink
from tallyveil.rewriter.sql.query import Shape
from tallyveil.rewriter.sql.statement_text import Dialect, parse_query
from tallyveil.rewriter.sql.time_zones import local_now
from tallyveil.rewriter.template import Templates

__all__ = ["Rewriter"]

D = TypeVar("D", bound=Draft)


class Rewriter:
    """Plans statements against the domains of the protected tables.

    ``relations`` are the names of the public relations in schema dp, ``public`` has the public
    tables with their columns' types, ``views`` the views' SQL, ``keys`` the keyed tables' keys;
    ``units``, ``absent`` and ``shown`` are as `Catalog` has them.

    Raises PolicyError for a view that no statement could use.
    """

    def __init__(
        self,
        domains: Mapping[str, Domain],
        relations: frozenset[str] = frozenset(),
        public: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
        views: Mapping[str, str] = MappingProxyType({}),
        keys: Mapping[str, Key] = MappingProxyType({}),
        units: Mapping[str, tuple[str, int]] = MappingProxyType({}),
        absent: Mapping[str, Sequence[Absent]] = MappingProxyType({}),
        shown: Mapping[str, tuple[str, dt.date]] = MappingProxyType({}),
    ) -> None:
        names = [one.name for domain in domains.values() for one in domain.own]
        self._spelled = {name.lower(): name for name in names if name != name.lower()}
        self._parts = ComponentParts()
        self._templates = Templates(self._parts)
        own = Catalog(domains, relations, public, {}, keys, units, shown, absent)
        self._catalog = read_views(own, views)

    def parameter_types(
        self, sql: str, dialect: Dialect, declared: Sequence[str | None] = ()
    ) -> tuple[str, ...]:
        """Return the types of $1, $2, …: declared, or inferred from their context."""
        with _bounded_depth():
            draft = _run(READING, Draft(*self._parsed(sql, dialect)))
        if not parameters.count(draft.tree):
            return tuple(kind or "VARCHAR" for kind in declared)
        resolve_tables(draft.tree, self._catalog)
        return parameters.infer(draft.tree, draft.bound.type_of, declared)

    def plan(
        self,
        sql: str,
        dialect: Dialect,
        cursor: PublicCursor,
        *,
        types: Sequence[str] = (),
        values: Sequence[Any] = (),
        session: Callable[[str, list[str | None]], Any] = lambda name, arguments: None,
        share: bool = True,
        extremes: bool = False,
        now: dt.datetime | None = None,
        shape: Shape | None = None,
    ) -> Plan:
        """Plan one query.

        ``session`` gives the value of a session function (version, current_user, …). ``share``
        allows grouping sets to be summed up from finer ones; their intervals are then wider than
        those of a release. ``extremes`` allows MIN, MAX, bool_or and bool_and of records, which
        noisy answers stand for. ``now`` is the value of now() as local time in the cursor's time
        zone, by default the current time. ``shape`` is the query's, if it depends on no session or
        time.

        Raises StatementError, whose position counts from the start of ``sql``.
        """
        setting = (cursor.time_zone, share, extremes)
        if shape is not None and values:
            shape = shape.given(types, values)
        with cursor.limited(), _bounded_depth():
            plan = None if shape is None else self._templates.find(shape, setting)
            if plan is not None:
                return plan
            draft = self._parsed(sql, dialect)
            if shape is not None and not self._templates.mark(draft[0], shape, self._catalog.views):
                shape = None
            planning = Planning(
                *draft,
                cursor=cursor,
                parts=self._parts,
                types=types,
                values=values,
                session=session,
                share=share,
                now=now or local_now(cursor.time_zone),
                extremes=extremes,
            )
            try:
                plan = _run(PLANNING, planning).plan()
                if shape is not None:
                    self._templates.keep(planning, plan, shape, setting)
                return plan
            finally:
                unlink(planning.trees)

    def exact_counts(self, sql: str, cursor: PublicCursor) -> Plan:
        """Plan a query, in PostgreSQL's dialect, for which all rows of the plan's workload are
        published exactly.

        Raises StatementError, with its position, if that would publish more than the query shows,
        or something else at another time.
        """
        with _bounded_depth():
            check_linear(sql, self._catalog)
        return self.plan(sql, "postgres", cursor, share=False)

    def _parsed(
        self, sql: str, dialect: Dialect
    ) -> tuple[exp.Expr, str, Dialect, Catalog, Mapping[str, str], Bound]:
        """The fields of a draft, with a copy of the parsed tree."""
        tree = parse_query(sql, dialect)
        deadline.check()
        bound = Bound(self._catalog, dialect)
        return tree.copy(), sql, dialect, self._catalog, self._spelled, bound


def _run(passes: Sequence[Callable[[D], None]], draft: D) -> D:
    for change in passes:
        deadline.check()
        change(draft)
        draft.bound.forget_facts()
    return draft


@contextmanager
def _bounded_depth() -> Iterator[None]:
    try:
        yield
    except RecursionError as error:
        raise StatementTooComplex("the statement is nested too deeply") from error
