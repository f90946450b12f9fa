"""The pipeline from a statement to its `Plan`.

1. parse, normalise identifiers, refuse what is not understood (`check`)
2. resolve the relations (`names`), bind the parameters and the session's constants
3. name the columns, translate PostgreSQL's meaning (`postgres`), take each private block apart
   (`block`)
4. evaluate each block's record-level part on the domain relation and make it a `Column` per
   distinct aggregate (`turn`)
5. leave behind the statement over the noisy rows (`Plan.sql`)

Planning touches public facts only, so it is free and may be repeated.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from sqlglot import exp
from sqlglot.optimizer.normalize_identifiers import normalize_identifiers

from tallyveil import deadline
from tallyveil.errors import StatementTooComplex, UndefinedFunction
from tallyveil.policy.domain import Domain
from tallyveil.rewriter.domain.parts import Parts
from tallyveil.rewriter.engine.cursor import Cursor
from tallyveil.rewriter.engine.database import public_table
from tallyveil.rewriter.plan import Plan
from tallyveil.rewriter.postgres import translate
from tallyveil.rewriter.private.block import Block, take_apart
from tallyveil.rewriter.private.division import null_on_zero
from tallyveil.rewriter.private.handing_on import hand_on
from tallyveil.rewriter.private.listings import refuse_counted_listings
from tallyveil.rewriter.private.projection import projection
from tallyveil.rewriter.private.turn import Collected, turn
from tallyveil.rewriter.private.undeclared import MAX_CAUTIONS
from tallyveil.rewriter.resolve.catalog import Catalog
from tallyveil.rewriter.resolve.columns import raw_rows
from tallyveil.rewriter.resolve.common import inline_common_tables
from tallyveil.rewriter.resolve.from_clause import FromClause
from tallyveil.rewriter.resolve.names import references, refuse_reserved_names
from tallyveil.rewriter.resolve.records import (
    KIND,
    aggregates,
    is_listing,
    reads_records,
)
from tallyveil.rewriter.resolve.scope import Scope
from tallyveil.rewriter.resolve.views import expand_views, expanded_views, read_views
from tallyveil.rewriter.sql import parameters as parameter
from tallyveil.rewriter.sql.check import check, function_name, position
from tallyveil.rewriter.sql.growth import bound_texts
from tallyveil.rewriter.sql.instants import local_now, settle_instants
from tallyveil.rewriter.sql.naming import name_columns
from tallyveil.rewriter.sql.query import is_session_function
from tallyveil.rewriter.sql.statements import Dialect, parse_query
from tallyveil.rewriter.sql.written_out import write_out

__all__ = ["MAX_BLOCKS", "Rewriter"]

MAX_BLOCKS: Final = 100


class Rewriter:
    """Plans statements against the domains of the protected tables.

    ``relations`` are the names of the public relations in schema dp, ``public`` the public
    tables with their columns' types, ``views`` the views' SQL.

    Raises PolicyError for a view that no statement could use.
    """

    def __init__(
        self,
        domains: Mapping[str, Domain],
        relations: frozenset[str] = frozenset(),
        public: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
        views: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        names = [name for domain in domains.values() for name in domain.names]
        self._spelled = {name.lower(): name for name in names if name != name.lower()}
        self._parts = Parts()
        self._catalog = read_views(Catalog(domains, relations, public), views)

    def parameter_types(
        self, sql: str, dialect: Dialect, declared: Sequence[str | None] = ()
    ) -> tuple[str, ...]:
        """The types of $1, $2, …: declared, or inferred from where they stand."""
        tree = self._checked(sql, dialect)
        if not parameter.count(tree):
            return tuple(kind or "VARCHAR" for kind in declared)
        scope = Scope(references(tree, self._catalog), self._catalog)
        return parameter.infer(tree, scope.type_of, declared)

    def plan(
        self,
        sql: str,
        dialect: Dialect,
        cursor: Cursor,
        *,
        types: Sequence[str] = (),
        values: Sequence[Any] = (),
        session: Callable[[str, list[str]], Any] = lambda name, arguments: None,
        share: bool = True,
        now: dt.datetime | None = None,
    ) -> Plan:
        """Plan one query.

        ``session`` gives the value of a session function (version, current_user, …). ``share``
        lets grouping sets be summed up from finer ones, whose interval is then wider than that
        of a release. ``now`` is the time the statement means by now(), as a clock in the
        cursor's time zone shows it; by default this moment.

        Raises a StatementError, whose position counts from the start of ``sql``.
        """
        try:
            with cursor.limited():
                tree = self._checked(sql, dialect)
                parameter.bind(tree, types, values)
                _replace_session_functions(tree, session)
                return self._split(
                    tree, sql, dialect, cursor, share, now or local_now(cursor.time_zone)
                )
        except RecursionError as error:
            raise StatementTooComplex("the statement is nested too deeply") from error

    def _split(
        self,
        tree: exp.Expr,
        sql: str,
        dialect: Dialect,
        cursor: Cursor,
        share: bool,
        now: dt.datetime,
    ) -> Plan:
        resolved = list(references(tree, self._catalog))
        refuse_reserved_names(tree)
        inline_common_tables(tree, resolved)
        deadline.check()
        name_columns(tree, dialect, sql)
        settle_instants(tree, now, cursor.time_zone)
        scope = Scope(resolved, self._catalog)
        scope.refuse_wide(tree)
        for part in [tree] if dialect == "postgres" else expanded_views(tree):
            translate(part, scope)
        bound_texts(tree)
        refuse_counted_listings(tree)
        deadline.check()
        used = _read_public(tree)
        hand_on(tree)
        collected = Collected()
        parts = [
            turn(block, f"__noisy_{number}", cursor, collected, self._parts, share)
            for number, block in enumerate(self._blocks(tree, cursor))
        ]
        null_on_zero(tree, exp.IntDiv, exp.Mod, constant=bool(parts))
        noisy = tuple(table for part in parts for table in part.tables)
        return Plan(
            collected.workloads(),
            noisy,
            tree.sql("duckdb", identify=True, comments=False),
            used,
            tuple(query for part in parts for query in part.queries),
            tuple(remark for part in parts for remark in part.remarks),
            tuple(dict.fromkeys(c for part in parts for c in part.cautions))[:MAX_CAUTIONS],
            projection(tree, noisy),
        )

    def _blocks(self, tree: exp.Expr, cursor: Cursor) -> list[Block]:
        """The private blocks, those inside others first."""
        found = sorted(_private_selects(tree), key=lambda select: -select.depth)
        if len(found) > MAX_BLOCKS:
            raise StatementTooComplex(
                f"the statement has {len(found)} SELECTs that aggregate records; "
                f"the limit is {MAX_BLOCKS}",
                hint="GROUP BY what they differ in, or ask in several statements.",
            )
        constant = _constants(cursor)
        return [take_apart(s, FromClause(self._catalog, cursor), constant) for s in found]

    def _checked(self, sql: str, dialect: Dialect) -> exp.Expr:
        """The syntax tree with the views in their places."""
        try:
            parsed = parse_query(sql, dialect)
            deadline.check()
            tree = parsed.copy()
            deadline.check()
            tree = normalize_identifiers(tree, dialect=dialect)
            if dialect == "duckdb":
                self._spell(tree)
            write_out(tree)
            check(tree)
            expand_views(tree, self._catalog)
        except RecursionError as error:
            raise StatementTooComplex("the statement is nested too deeply") from error
        return tree

    def _spell(self, tree: exp.Expr) -> None:
        """Write names as the policy spells them: to DuckDB they are the same in every case."""
        for name in tree.find_all(exp.Identifier) if self._spelled else ():
            name.set("this", self._spelled.get(name.this, name.this))


def _private_selects(tree: exp.Expr) -> Iterator[exp.Select]:
    """The SELECTs that aggregate records. What they read is theirs, and is not looked into."""
    stack = [tree]
    while stack:
        node = stack.pop()
        children = list(node.iter_expressions())
        if isinstance(node, exp.Select) and reads_records(node):
            if not aggregates(node) and not is_listing(node):
                raise raw_rows(node)
            yield node
            ours = exp.From | exp.Join | exp.Where | exp.Group
            children = [c for c in children if not isinstance(c, ours)]
        stack += reversed(children)


def _read_public(tree: exp.Expr) -> frozenset[str]:
    """Point the names of public tables and relations at what the public database calls them."""
    used = set()
    for table in tree.find_all(exp.Table):
        kind = table.meta.get(KIND)
        if kind not in ("public", "dp"):
            continue
        if kind == "dp":
            used.add(table.name)
        alias = exp.to_identifier(table.alias or table.name, quoted=True)
        given = table.args.get("alias")
        columns = list(given.columns) if given is not None else []
        name = public_table(table.name) if kind == "public" else f"__dp_{table.name}"
        table.set("this", exp.to_identifier(name, quoted=True))
        table.set("db", None)
        table.set("alias", exp.TableAlias(this=alias, columns=columns))
    return frozenset(used)


def _constants(cursor: Cursor) -> Callable[[exp.Expr], Any]:
    def constant(node: exp.Expr) -> Any:
        """The value of a constant expression; plain numbers without asking DuckDB."""
        inner = node.unnest()
        if isinstance(inner, exp.Literal) and not inner.is_string:
            return float(inner.this) if not inner.this.isdigit() else int(inner.this)
        _, rows = cursor.rows(f"SELECT {node.sql('duckdb', identify=True, comments=False)}")
        return rows[0][0]

    return constant


def _replace_session_functions(tree: exp.Expr, session: Callable[[str, list[str]], Any]) -> None:
    for node in list(tree.find_all(exp.Func)):
        if not is_session_function(node):
            continue
        name = function_name(node)
        given = [a.this if isinstance(a, exp.Cast) else a for a in node.iter_expressions()]
        if not all(argument.is_string for argument in given):
            raise UndefinedFunction(
                f"function {name} takes texts in quotes", position=position(node)
            )
        arguments = [argument.name for argument in given]
        value = exp.convert(session(name, arguments))
        target = node.parent if isinstance(node.parent, exp.Dot) else node
        item = target.parent
        if isinstance(item, exp.Select):
            value = exp.alias_(value, name, quoted=True)
        target.replace(value)
