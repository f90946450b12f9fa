"""Plan one block: evaluate its record-level part, and let its SELECT read noisy rows instead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from tallyveil.rewriter.domain.component_parts import ComponentParts
from tallyveil.rewriter.domain.components import LinearQuery
from tallyveil.rewriter.domain.evaluate import WIDE, Evaluated, evaluate
from tallyveil.rewriter.engine.public_cursor import PublicCursor
from tallyveil.rewriter.intervals.claims import evaluator
from tallyveil.rewriter.private.block import NOISY, Block
from tallyveil.rewriter.private.kept_rows import checked_source
from tallyveil.rewriter.private.moments import centring
from tallyveil.rewriter.private.noisy_tables import Collected, noisy_tables
from tallyveil.rewriter.private.outputs import Outputs, WhichWindows
from tallyveil.rewriter.private.statistics import Statistics
from tallyveil.rewriter.private.undeclared import empty_result_caution
from tallyveil.rewriter.private.windows import Sums, sums_over_frames
from tallyveil.rewriter.query_plan import Caution, NoisyTable
from tallyveil.rewriter.sql.nodes import unlink

__all__ = ["PlannedBlock", "plan_block"]


@dataclass(frozen=True)
class PlannedBlock:
    """A block as evaluated on the domain. ``name`` begins its tables' names; ``remarks`` report
    choices, and ``cautions`` warn the analyst.
    """

    block: Block
    name: str
    outputs: Outputs
    evaluated: tuple[Evaluated, ...]
    tables: tuple[NoisyTable, ...]
    remarks: tuple[str, ...]
    cautions: tuple[Caution, ...]

    @property
    def queries(self) -> tuple[str, ...]:
        """The SQL that computed the coefficients."""
        return tuple(query for found in self.evaluated for query in found.queries)

    @property
    def trees(self) -> Iterator[exp.Expr]:
        """What was evaluated: conditions, keys and coefficients."""
        if self.block.where is not None:
            yield self.block.where
        yield from self.block.groups.keys
        yield from self.outputs.coefficients
        for together in (one for found in self.evaluated for one in found.divided):
            for component in together.components:
                yield from component.keys.values()
                yield from component.expressions
                yield from component.source.nodes


def plan_block(
    block: Block,
    name: str,
    cursor: PublicCursor,
    collected: Collected,
    parts: ComponentParts,
    share: bool,
    before: Mapping[str, NoisyTable],
    *,
    windows: bool = True,
) -> PlannedBlock:
    """Evaluate the block on the domain and make its SELECT read noisy tables named ``name``….

    ``share`` allows rows to be summed up from others: those of grouping sets, and of ``windows``
    over groups, which are rows of their own otherwise where their intervals are asked. ``before``
    are the noisy tables of inner blocks.
    """
    which: WhichWindows = ("all" if share else "asked") if windows else "none"
    outputs = Outputs(block, centring(block, cursor), evaluator(cursor), before, which)
    items = [
        exp.Alias(this=outputs.rewrite(item.this), alias=item.args["alias"].copy())
        for item in block.select.expressions
    ]
    clauses = {"expressions": items, **_over_noisy_rows(block.select, outputs)}
    coefficients = dict(enumerate(outputs.coefficients))
    source = checked_source(block, outputs.coefficients, cursor)
    evaluated, sums = [], dict[int, Sums]()
    for numbers in block.groups.sets:
        keys = [block.groups.keys[number] for number in numbers]
        asked = LinearQuery(block.domain, source, block.where, keys, coefficients)
        evaluated.append(evaluate(asked, cursor, parts))
        for number, window in outputs.windows.items():
            found = sums_over_frames(window, evaluated[-1], number, cursor)
            if found is None:
                return plan_block(
                    block, name, cursor, collected, parts, share, before, windows=False
                )
            sums[number] = found
        collected.count(evaluated[-1].height * outputs.width)
    outputs.quotients.note(item.this for item in items)
    tables, remarks = noisy_tables(block, name, evaluated, collected, outputs, share, sums)
    tables = tuple(
        Statistics(
            block, [block.groups.keys[number] for number in numbers], one, cursor, parts
        ).added(table, outputs, collected)
        for table, numbers, one in zip(tables, block.groups.sets, evaluated, strict=True)
    )
    joined = not block.source.plain
    cautions = block.cautions or empty_result_caution(
        block.where, joined, outputs.coefficients, evaluated, outputs.cancelled, block.last
    )
    replaced = list(block.select.iter_expressions())
    block.select.set("from_", exp.From(this=_source(tables)))
    block.select.set("joins", None)
    for clause, value in clauses.items():
        block.select.set(clause, value)
    kept = set(map(id, block.select.iter_expressions()))
    unlink(node for node in replaced if id(node) not in kept)
    return PlannedBlock(block, name, outputs, tuple(evaluated), tables, remarks, cautions)


def _source(tables: Sequence[NoisyTable]) -> exp.Expr:
    """The tables of the grouping sets, joined by UNION ALL."""
    alias = exp.TableAlias(this=exp.to_identifier(NOISY, quoted=True))
    if len(tables) == 1 and not _wide(tables[0]):
        source: exp.Expr = exp.Table(this=exp.to_identifier(tables[0].name))
    else:
        rows: exp.Query = _rows(tables[0])
        for table in tables[1:]:
            rows = exp.union(rows, _rows(table), distinct=False, copy=False)
        source = exp.Subquery(this=rows)
    source.set("alias", alias)
    return source


def _rows(table: NoisyTable) -> exp.Query:
    """Select all of a table; integers beyond 64 bits, decimals in Arrow, are cast back."""
    integers = [
        exp.alias_(exp.cast(exp.column(name, quoted=True), "hugeint", dialect="duckdb"), name)
        for number in _wide(table)
        for name in (f"__c{number}", f"__l{number}", f"__u{number}")
    ]
    star = exp.Star(replace=integers) if integers else exp.Star()
    return exp.select(star).from_(table.name)


def _wide(table: NoisyTable) -> list[int]:
    """The numbers of the outputs that are integers beyond 64 bits."""
    return [number for number, output in enumerate(table.outputs) if output.type == WIDE]


def _over_noisy_rows(select: exp.Select, outputs: Outputs) -> dict[str, exp.Expr | None]:
    """The SELECT's other clauses over noisy rows. A group is a row, so HAVING becomes WHERE."""
    having, qualify, order = map(select.args.get, ("having", "qualify", "order"))
    return {
        "where": exp.Where(this=outputs.rewrite(having.this)) if having is not None else None,
        "group": None,
        "having": None,
        "qualify": None if qualify is None else exp.Qualify(this=outputs.rewrite(qualify.this)),
        "order": _order(outputs, order) if order is not None else None,
    }


def _order(outputs: Outputs, order: exp.Order) -> exp.Order:
    """ORDER BY over noisy rows. The position of an item stays."""
    parts = []
    for part in order.expressions:
        copy = part.copy()
        number = part.this
        if not isinstance(number, exp.Literal) or number.is_string:
            copy.set("this", outputs.rewrite(part.this))
        parts.append(copy)
    return exp.Order(expressions=parts)
