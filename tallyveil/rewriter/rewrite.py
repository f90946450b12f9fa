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

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlglot import exp
from sqlglot.optimizer.normalize_identifiers import normalize_identifiers

from tallyveil.errors import FeatureNotSupported, StatementTooComplex
from tallyveil.policy.domain import Domain
from tallyveil.rewriter import parameters as parameter
from tallyveil.rewriter.block import Block, is_aggregate, take_apart
from tallyveil.rewriter.check import check, function_name, position
from tallyveil.rewriter.database import Cursor
from tallyveil.rewriter.division import null_on_zero
from tallyveil.rewriter.names import Reference, references, refuse_reserved_names
from tallyveil.rewriter.naming import name_columns
from tallyveil.rewriter.plan import Plan
from tallyveil.rewriter.postgres import translate
from tallyveil.rewriter.scope import Scope
from tallyveil.rewriter.statements import Dialect, parse_query
from tallyveil.rewriter.turn import Collected, turn
from tallyveil.rewriter.vocabulary import SESSION_FUNCTIONS

__all__ = ["Rewriter"]


class Rewriter:
    """Plans statements against the domains of the protected tables.

    ``relations`` are the names of the public relations in schema dp.
    """

    def __init__(self, domains: Mapping[str, Domain], relations: frozenset[str]) -> None:
        self._domains = dict(domains)
        self._relations = relations

    def parameter_types(
        self, sql: str, dialect: Dialect, declared: Sequence[str | None] = ()
    ) -> tuple[str, ...]:
        """The types of $1, $2, …: declared, or inferred from where they stand."""
        tree = _checked(sql, dialect)
        if not parameter.count(tree):
            return tuple(kind or "VARCHAR" for kind in declared)
        scope = Scope(references(tree, self._domains, self._relations), self._domains)
        return parameter.infer(tree, scope.type_of, declared)

    def uses_session(self, sql: str, dialect: Dialect) -> bool:
        """Whether the statement asks about the session, so that its plan is the session's own."""
        return any(_is_session_function(n) for n in parse_query(sql, dialect).find_all(exp.Func))

    def plan(
        self,
        sql: str,
        dialect: Dialect,
        cursor: Cursor,
        *,
        types: Sequence[str] = (),
        values: Sequence[Any] = (),
        session: Callable[[str, list[str]], Any] = lambda name, arguments: None,
    ) -> Plan:
        """Plan one query.

        ``session`` gives the value of a session function (version, current_user, …).

        Raises a StatementError, whose position counts from the start of ``sql``.
        """
        try:
            tree = _checked(sql, dialect)
            parameter.bind(tree, types, values)
            _replace_session_functions(tree, session)
            return self._split(tree, sql, dialect, cursor)
        except RecursionError as error:
            raise StatementTooComplex("the statement is nested too deeply") from error

    def _split(self, tree: exp.Expr, sql: str, dialect: Dialect, cursor: Cursor) -> Plan:
        resolved = list(references(tree, self._domains, self._relations))
        refuse_reserved_names(tree)
        name_columns(tree, dialect, sql)
        if dialect == "postgres":
            translate(tree, Scope(resolved, self._domains))
        used = _read_public_relations(resolved)
        collected = Collected()
        parts = [
            turn(block, f"__noisy_{number}", cursor, collected)
            for number, block in enumerate(self._blocks(resolved, cursor))
        ]
        _refuse_stray_intervals(tree)
        null_on_zero(tree, exp.IntDiv, exp.Mod)
        return Plan(
            collected.workloads(),
            tuple(part.table for part in parts),
            tree.sql("duckdb", identify=True, comments=False),
            used,
            tuple(query for part in parts for query in part.queries),
        )

    def _blocks(self, resolved: Sequence[Reference], cursor: Cursor) -> list[Block]:
        """The private blocks, those inside others first."""
        blocks: list[tuple[int, Block]] = []
        for reference in resolved:
            if reference.kind != "protected":
                continue
            select = reference.node.find_ancestor(exp.Select)
            if select is None:
                raise FeatureNotSupported(
                    "a protected table is asked by SELECT only", position=position(reference.node)
                )
            if not any(block.select is select for _, block in blocks):
                block = take_apart(select, self._domains[reference.name], _constants(cursor))
                blocks.append((select.depth, block))
        return [block for _, block in sorted(blocks, key=lambda pair: -pair[0])]


def _checked(sql: str, dialect: Dialect) -> exp.Expr:
    try:
        tree = normalize_identifiers(parse_query(sql, dialect).copy(), dialect=dialect)
        check(tree)
    except RecursionError as error:
        raise StatementTooComplex("the statement is nested too deeply") from error
    return tree


def _read_public_relations(resolved: Sequence[Reference]) -> frozenset[str]:
    used = [reference for reference in resolved if reference.kind == "dp"]
    for reference in used:
        table = reference.node
        alias = exp.to_identifier(table.alias or reference.name, quoted=True)
        columns = table.args["alias"].columns if table.args.get("alias") is not None else []
        table.set("this", exp.to_identifier(f"__dp_{reference.name}", quoted=True))
        table.set("db", None)
        table.set("alias", exp.TableAlias(this=alias, columns=list(columns)))
    return frozenset(reference.name for reference in used)


def _refuse_stray_intervals(tree: exp.Expr) -> None:
    for node in tree.find_all(exp.Anonymous):
        if function_name(node).startswith("dp_"):
            raise FeatureNotSupported(
                f"{function_name(node)} belongs into the SELECT that aggregates",
                hint=f"SELECT count(*) AS n, {function_name(node)}(n) FROM …",
                position=position(node),
            )


def _constants(cursor: Cursor) -> Callable[[exp.Expr], Any]:
    def constant(node: exp.Expr) -> Any:
        """The value of a constant expression; plain numbers without asking DuckDB."""
        inner = node.unnest()
        if isinstance(inner, exp.Literal) and not inner.is_string:
            return float(inner.this) if not inner.this.isdigit() else int(inner.this)
        _, rows = cursor.rows(f"SELECT {node.sql('duckdb', identify=True, comments=False)}")
        return rows[0][0]

    return constant


def _is_session_function(node: exp.Func) -> bool:
    return not is_aggregate(node) and function_name(node) in SESSION_FUNCTIONS


def _replace_session_functions(tree: exp.Expr, session: Callable[[str, list[str]], Any]) -> None:
    for node in list(tree.find_all(exp.Func)):
        if not _is_session_function(node):
            continue
        name = function_name(node)
        arguments = [argument.name for argument in node.iter_expressions()]
        value = exp.convert(session(name, arguments))
        target = node.parent if isinstance(node.parent, exp.Dot) else node
        item = target.parent
        if isinstance(item, exp.Select):
            value = exp.alias_(value, name, quoted=True)
        target.replace(value)
