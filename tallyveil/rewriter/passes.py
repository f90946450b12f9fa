"""The passes from a parsed statement to its plan, in order. Each changes the draft in place.

1. write names as the dialect and the policy do; refuse what cannot be analysed; expand views
2. insert parameters and the session's constants
3. resolve tables; name columns; insert the time
4. translate PostgreSQL's SQL; limit the length of texts
5. plan each private block: evaluate it on the domain, and let its SELECT read noisy rows
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa
from sqlglot import exp
from sqlglot.optimizer.normalize_identifiers import normalize_identifiers

from tallyveil.errors import FeatureNotSupported, StatementTooComplex, UndefinedFunction
from tallyveil.rewriter.domain.component_parts import ComponentParts
from tallyveil.rewriter.engine.public_cursor import PublicCursor
from tallyveil.rewriter.engine.public_database import public_table, relation_name
from tallyveil.rewriter.intervals.interval_columns import add_interval_columns
from tallyveil.rewriter.intervals.noise_checks import noise_checks
from tallyveil.rewriter.intervals.quotients import Quotients
from tallyveil.rewriter.postgres import translate
from tallyveil.rewriter.private.above import check_above
from tallyveil.rewriter.private.block import Block, read_block
from tallyveil.rewriter.private.doubtful import decide_by_intervals
from tallyveil.rewriter.private.empty_groups import empty_groups_first
from tallyveil.rewriter.private.linear import null_on_zero
from tallyveil.rewriter.private.noisy_projection import projection
from tallyveil.rewriter.private.noisy_select import PlannedBlock, plan_block
from tallyveil.rewriter.private.noisy_tables import Collected
from tallyveil.rewriter.private.top_n_join import pick_groups
from tallyveil.rewriter.private.undeclared import MAX_CAUTIONS
from tallyveil.rewriter.query_plan import Caution, NoisyTable, Plan
from tallyveil.rewriter.resolve.bound import OF_TYPE_NAME, Bound
from tallyveil.rewriter.resolve.catalog_names import (
    Catalog,
    forget_databases,
    forget_schemas,
    refuse_catalogs,
    refuse_reserved_names,
    resolve_tables,
)
from tallyveil.rewriter.resolve.columns import refuse_aliases_in_order, unaggregated
from tallyveil.rewriter.resolve.definitions import (
    expand_views,
    expanded_views,
    inline_common_tables,
)
from tallyveil.rewriter.resolve.from_clause import FromClause
from tallyveil.rewriter.resolve.key_conditions import pick_by_keys
from tallyveil.rewriter.resolve.probes import empty_probes
from tallyveil.rewriter.resolve.record_queries import (
    KIND,
    aggregates,
    is_listing,
    reads_records,
    refuse_counted_listings,
)
from tallyveil.rewriter.resolve.unit_counts import count_units
from tallyveil.rewriter.sql import parameters
from tallyveil.rewriter.sql.check import check, refuse_type_lookups
from tallyveil.rewriter.sql.naming import check_references, name_columns
from tallyveil.rewriter.sql.nodes import duckdb_sql, function_name, own_alias, position
from tallyveil.rewriter.sql.query import is_session_function
from tallyveil.rewriter.sql.short_forms import write_out
from tallyveil.rewriter.sql.size import bound_texts
from tallyveil.rewriter.sql.statement_text import Dialect
from tallyveil.rewriter.sql.timestamps import fold_timestamps
from tallyveil.rewriter.sql.vocabulary import ABOUT_ANSWERS

__all__ = ["PLANNING", "READING", "Draft", "Planning"]

MAX_BLOCKS: Final = 100
_BESIDE: Final = "__noisy_beside"


@dataclass
class Draft:
    """A statement's tree, which every pass changes in place.

    ``spelled`` maps names in lower case to the names that the policy writes with capitals.
    """

    tree: exp.Expr
    sql: str
    dialect: Dialect
    catalog: Catalog
    spelled: Mapping[str, str]
    bound: Bound


@dataclass
class Planning(Draft):
    """A draft with all that its plan depends on (see `Rewriter.plan`), and what passes found: the
    numbers of the result's columns of type name, the relations of schema dp it reads, cautions
    about constants above the aggregation and about which groups come ``first``, its private
    blocks, and the table ``beside`` theirs of intervals of several.
    """

    cursor: PublicCursor
    parts: ComponentParts
    types: Sequence[str]
    values: Sequence[Any]
    session: Callable[[str, list[str | None]], Any]
    share: bool
    now: dt.datetime
    extremes: bool = False
    names: frozenset[int] = frozenset()
    used: frozenset[str] = frozenset()
    collected: Collected = field(default_factory=Collected)
    cautions: tuple[Caution, ...] = ()
    first: tuple[Caution, ...] = ()
    planned: list[PlannedBlock] = field(default_factory=list)
    beside: tuple[NoisyTable, ...] = ()

    @property
    def trees(self) -> Iterator[exp.Expr]:
        """The statement and what was evaluated for it."""
        yield self.tree
        for part in self.planned:
            yield from part.trees

    def plan(self) -> Plan:
        """The plan, after the last pass."""
        noisy = tuple(table for part in self.planned for table in part.tables) + self.beside
        below = (c for part in self.planned for c in part.cautions)
        cautions = dict.fromkeys([*self.cautions, *below, *self.first, *self.collected.cautions])
        return Plan(
            self.collected.workloads(),
            noisy,
            duckdb_sql(self.tree),
            self.used,
            tuple(query for part in self.planned for query in part.queries),
            tuple(remark for part in self.planned for remark in part.remarks),
            tuple(cautions)[:MAX_CAUTIONS],
            projection(self.tree, noisy),
            self.collected.summed,
            self.names,
            noise_checks(self.tree) if noisy else (),
            self.collected.histograms,
        )


def _normalise_names(draft: Draft) -> None:
    draft.tree = normalize_identifiers(draft.tree, dialect=draft.dialect)


def _spell_names(draft: Draft) -> None:
    """Write names as the policy spells them, since DuckDB ignores their case."""
    if draft.dialect == "duckdb" and draft.spelled:
        for name in draft.tree.find_all(exp.Identifier):
            name.set("this", draft.spelled.get(name.this, name.this))


def _replace_session_functions(planning: Planning) -> None:
    """Replace them by constants, from the left to the right: set_config changes what those after it
    return."""
    for node in list(planning.tree.find_all(exp.Func, bfs=False)):
        if not is_session_function(node):
            continue
        name = function_name(node)
        if name == "set_config" and not _is_item_alone(node, planning.tree):
            raise FeatureNotSupported(
                "set_config is answered as an item of a SELECT without FROM only",
                hint="Write SELECT set_config('name', 'value', false), or SET name = 'value'.",
                position=position(node),
            )
        given = [a.this if isinstance(a, exp.Cast) else a for a in node.iter_expressions()]
        constant = exp.Boolean | exp.Null
        if not all(argument.is_string or isinstance(argument, constant) for argument in given):
            raise UndefinedFunction(
                f"the arguments of function {name} must be quoted constants",
                position=position(node),
            )
        arguments = [
            None if isinstance(a, exp.Null) else a.name or str(a.this).lower()  # a boolean's
            for a in given
        ]
        value = exp.convert(planning.session(name, arguments))
        value.meta[OF_TYPE_NAME] = name in _OF_TYPE_NAME
        target = node.parent if isinstance(node.parent, exp.Dot) else node
        item = target.parent
        if isinstance(item, exp.Select):
            value = exp.alias_(value, name, quoted=True)
        target.replace(value)


# Session functions whose result is of the type name.
_OF_TYPE_NAME: Final = frozenset(
    {
        "current_schema",
        "current_database",
        "current_catalog",
        "current_user",
        "session_user",
        "current_role",
        "user",
    }
)


def _is_item_alone(node: exp.Expr, tree: exp.Expr) -> bool:
    """Whether it is an item of the statement, which is a SELECT with nothing but items."""
    item = node
    while isinstance(item.parent, exp.Dot | exp.Alias):
        item = item.parent
    clauses = {name for name, value in tree.args.items() if value}
    return item.parent is tree and isinstance(tree, exp.Select) and clauses == {"expressions"}


def _resolve_tables(planning: Planning) -> None:
    """Resolve tables, and once more if protected tables were replaced by empty ones."""
    tree, catalog = planning.tree, planning.catalog
    resolve_tables(tree, catalog)
    forget_schemas(tree)
    if empty_probes(tree, catalog):
        resolve_tables(tree, catalog)


def _decide_by_intervals(planning: Planning) -> None:
    if planning.extremes:
        planning.collected.cautions += decide_by_intervals(planning.tree)


def _bind(planning: Planning) -> None:
    """Find what each column of the result is, of those that DuckDB's types do not show."""
    tree, bound = planning.tree, planning.bound
    bound.refuse_wide(tree)
    marked = any(node.meta_get(OF_TYPE_NAME) for node in tree.find_all(exp.Literal))
    if marked and planning.dialect == "postgres":
        columns = enumerate(bound.result(tree))
        planning.names = frozenset(number for number, (_, facts) in columns if facts.names)


def _translate(planning: Planning) -> None:
    """Translate PostgreSQL's SQL: the statement, or only its views if it is in DuckDB's."""
    whole = planning.dialect == "postgres"
    if whole:
        refuse_aliases_in_order(planning.tree, planning.bound)
    for part in [planning.tree] if whole else expanded_views(planning.tree):
        translate(part, planning.bound)


def _check_above(planning: Planning) -> None:
    catalog, cursor = planning.catalog, planning.cursor
    planning.cautions = check_above(
        planning.tree, planning.bound, catalog.domains, cursor.constant, cursor.time_zone
    )
    planning.first = empty_groups_first(planning.tree, planning.bound)


def _read_public(planning: Planning) -> None:
    """Replace the names of public tables and relations by their names in the public database."""
    used = set()
    for table in planning.tree.find_all(exp.Table):
        kind = table.meta_get(KIND)
        if kind not in ("public", "dp"):
            continue
        if kind == "dp":
            used.add(f"{table.db}.{table.name}")
        alias = own_alias(table)
        own = relation_name(f"{table.db}.{table.name}")
        name = public_table(table.name) if kind == "public" else own
        table.set("this", exp.to_identifier(name, quoted=True))
        table.set("db", None)
        table.set("alias", alias)
    planning.used = frozenset(used)


def _plan_blocks(planning: Planning) -> None:
    for number, block in enumerate(_blocks(planning)):
        name, collected = f"__noisy_{number}", planning.collected
        before = {table.name: table for part in planning.planned for table in part.tables}
        planning.planned.append(
            plan_block(
                block, name, planning.cursor, collected, planning.parts, planning.share, before
            )
        )


def _place_intervals(planning: Planning) -> None:
    """Place the intervals of expressions of subqueries, which are beside all noisy tables."""
    functions = planning.tree.find_all(exp.Anonymous)
    left = [one for one in functions if function_name(one) in ABOUT_ANSWERS]
    if not left:
        return
    tables = {table.name: table for part in planning.planned for table in part.tables}
    quotients = Quotients(lambda name: exp.select(name).from_(_BESIDE).subquery(), tables)
    for function in left:
        function.replace(quotients.about(function, function.expressions[0]))
    planning.beside = (NoisyTable(_BESIDE, pa.table({}), 1, (), quotients=quotients.columns),)


def _blocks(planning: Planning) -> list[Block]:
    """The private blocks, inner ones first."""
    found = sorted(_private_selects(planning.tree), key=lambda select: -select.depth)
    if len(found) > MAX_BLOCKS:
        raise StatementTooComplex(
            f"the statement has {len(found)} SELECTs that aggregate records; "
            f"the limit is {MAX_BLOCKS}",
            hint="GROUP BY the values in which they differ, or use several statements.",
        )
    catalog, cursor, bound = planning.catalog, planning.cursor, planning.bound
    blocks = [
        read_block(s, FromClause(catalog, cursor, bound), cursor.constant, bound) for s in found
    ]
    return [replace(block, extremes=planning.extremes) for block in blocks]


def _private_selects(tree: exp.Expr) -> Iterator[exp.Select]:
    """Yield the SELECTs that aggregate records. Their FROM, WHERE and GROUP BY are skipped."""
    stack = [tree]
    while stack:
        node = stack.pop()
        children = list(node.iter_expressions())
        if isinstance(node, exp.Select) and reads_records(node):
            listed = is_listing(node) and not node.args.get("qualify")
            if not aggregates(node) and not listed:
                raise unaggregated(node)
            yield node
            clauses = exp.From | exp.Join | exp.Where | exp.Group
            children = [c for c in children if not isinstance(c, clauses)]
        stack += reversed(children)


READING: Final[tuple[Callable[[Draft], None], ...]] = (
    _normalise_names,
    _spell_names,
    lambda draft: forget_databases(draft.tree),
    lambda draft: write_out(draft.tree),
    lambda draft: refuse_type_lookups(draft.tree),
    lambda draft: refuse_catalogs(draft.tree, draft.catalog),
    lambda draft: check(draft.tree),
    lambda draft: check_references(draft.tree, draft.dialect),
    lambda draft: expand_views(draft.tree, draft.catalog),
)
"""The passes before the types of parameters are inferred."""

PLANNING: Final[tuple[Callable[[Planning], None], ...]] = (
    *READING,
    lambda planning: parameters.bind(planning.tree, planning.types, planning.values),
    _replace_session_functions,
    _resolve_tables,
    lambda planning: refuse_reserved_names(planning.tree),
    lambda planning: inline_common_tables(planning.tree),
    lambda planning: name_columns(planning.tree, planning.dialect, planning.sql),
    lambda planning: count_units(planning.tree, planning.catalog),
    _decide_by_intervals,
    _bind,
    lambda planning: fold_timestamps(
        planning.tree, planning.now, planning.bound.declared_type_of, planning.dialect
    ),
    _translate,
    lambda planning: bound_texts(planning.tree),
    lambda planning: refuse_counted_listings(planning.tree),
    lambda planning: pick_groups(planning.tree, planning.bound),
    lambda planning: pick_by_keys(planning.tree, planning.bound),
    _check_above,
    _read_public,
    lambda planning: add_interval_columns(planning.tree, planning.bound),
    _plan_blocks,
    _place_intervals,
    lambda planning: null_on_zero(
        planning.tree, exp.IntDiv, exp.Mod, constant=bool(planning.planned)
    ),
)
