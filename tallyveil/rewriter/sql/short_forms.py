"""Expand short forms of SQL before any other pass uses the tree, and balance long chains of AND and
OR.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from tallyveil.errors import FeatureNotSupported, SQLSyntaxError, UndefinedFunction, UndefinedObject
from tallyveil.rewriter.sql.nodes import (
    COMPARISONS,
    all_nodes,
    conjunction,
    function_name,
    position,
    rendered,
)

__all__ = ["balance", "select_functions", "spell_out_rows", "spell_out_values", "write_out"]


def write_out(tree: exp.Expr) -> None:
    """Expand SOME, ALL, the names of windows, EXISTS (SELECT FROM …), percentile_cont(q) WITHIN
    GROUP (ORDER BY x), date(x), count_if(x) and regr_count(y, x), in place.

    GROUP BY ALL a, b becomes GROUP BY a, b: ALL is the opposite of DISTINCT here.
    """
    spell_out_quantifiers(tree)
    for group in tree.find_all(exp.Group):
        if group.args.get("all") and group.expressions:
            group.set("all", None)
    write_out_windows(tree)
    for within in all_nodes(tree, exp.WithinGroup):
        spell_out_percentile(within)
    for exists in tree.find_all(exp.Exists):
        query = exists.this.unnest() if isinstance(exists.this, exp.Subquery) else exists.this
        if isinstance(query, exp.Select) and not query.expressions:
            query.set("expressions", [exp.Literal.number(1)])
    for date in tree.find_all(exp.Date):
        if date.this is not None and not any(date.args.get(n) for n in ("zone", "expressions")):
            cast = exp.cast(date.this, "date")
            item = isinstance(date.parent, exp.Select) and date.arg_key == "expressions"
            date.replace(exp.alias_(cast, "date", quoted=True) if item else cast)
    for every in [node for node in tree.find_all(exp.Anonymous) if node.name.lower() == "every"]:
        if len(every.expressions) == 1:
            conjunction_of = exp.LogicalAnd(this=every.expressions[0])
            conjunction_of.meta.update(every.meta)
            every.replace(conjunction_of)
    for counted in all_nodes(tree, exp.CountIf, exp.RegrCount):
        _write_count(counted)


def _write_count(counted: exp.Expr) -> None:
    """count_if(x) becomes count(*) FILTER (WHERE x), and regr_count(y, x) counts where neither is
    NULL."""
    if counted.this is None or (isinstance(counted, exp.RegrCount) and not counted.expression):
        raise UndefinedFunction(
            f"function {function_name(counted)} has too few arguments", position=position(counted)
        )
    if isinstance(counted, exp.CountIf):
        conditions = [counted.this]
    else:
        sides = (counted.this, counted.expression)
        conditions = [exp.Not(this=exp.Is(this=exp.paren(s), expression=exp.Null())) for s in sides]
    target, around = counted, counted.parent
    if isinstance(around, exp.Filter):
        target, conditions = around, [around.expression.this, *conditions]
    whole = conditions[0] if len(conditions) == 1 else conjunction(conditions)
    count = exp.Count(this=exp.Star(), big_int=True)
    found = exp.Filter(this=count, expression=exp.Where(this=whole))
    item = isinstance(target.parent, exp.Select) and target.arg_key == "expressions"
    name = function_name(counted)
    if isinstance(counted, exp.CountIf):
        name = rendered(target, "duckdb", normalize_functions="lower")
    target.replace(exp.alias_(found, name, quoted=True) if item else found)


def spell_out_quantifiers(tree: exp.Expr) -> None:
    """x < SOME (…) becomes x < ANY (…), x < ALL (…) becomes NOT x >= ANY (…), in place.

    Both sides of the second are NULL for the same values, by De Morgan's law for AND and OR.
    """
    for quantifier in tree.find_all(exp.Any):
        if isinstance(quantifier.this, exp.Select):
            quantifier.set("this", exp.Subquery(this=quantifier.this))
    for node in all_nodes(tree, exp.Anonymous, exp.All):
        comparison = node.parent
        found = None if comparison is None else COMPARISONS.get(type(comparison))
        word = "all" if isinstance(node, exp.All) else str(node.this).lower()
        inner = node.this if isinstance(node, exp.All) else None
        if len(node.expressions) == 1:
            inner = node.expressions[0]
        if found is None or comparison is None or inner is None or word not in ("all", "some"):
            continue
        if comparison.expression is not node:
            continue
        bare = inner.unnest() if isinstance(inner, exp.Paren) else inner
        operand = exp.Subquery(this=bare) if isinstance(bare, exp.Select) else exp.Paren(this=bare)
        node.replace(exp.Any(this=operand))
        if word == "all":
            opposite = found.opposite(this=comparison.this, expression=comparison.expression)
            comparison.replace(exp.Not(this=exp.Paren(this=opposite)))


def spell_out_percentile(within: exp.WithinGroup) -> None:
    """percentile_disc(q) WITHIN GROUP (ORDER BY x) becomes percentile_disc(x, q), in place, and
    mode() WITHIN GROUP (ORDER BY x) becomes mode(x).

    Raises FeatureNotSupported for percentile_disc in descending order: of two values it takes the
    other.
    """
    function, order = within.this, within.expression
    if isinstance(function, exp.Mode) and len(order.expressions) == 1 and function.this is None:
        within.replace(exp.Mode(this=order.expressions[0].this))
        return
    known = isinstance(function, exp.PercentileCont | exp.PercentileDisc)
    if not known or len(order.expressions) != 1 or function.expression is not None:
        return
    (ordered,), rank = order.expressions, function.this
    if ordered.args.get("desc"):
        if isinstance(function, exp.PercentileDisc):
            raise FeatureNotSupported(
                "percentile_disc in descending order is not answered",
                hint="Write ORDER BY without DESC, and 1 minus the rank.",
                position=position(function),
            )
        rank = exp.Sub(this=exp.Literal.number(1), expression=exp.paren(rank))
    function.set("this", ordered.this)
    function.set("expression", rank)
    within.replace(function)


def write_out_windows(tree: exp.Expr) -> None:
    """Replace the names of windows by their definitions in the SELECT's WINDOW clause, in place, as
    PostgreSQL reads OVER w.

    Raises UndefinedObject if a name has no definition, and SQLSyntaxError if it has two, or if
    OVER (w …) overrides a clause of it.
    """
    defined: dict[int, dict[str, exp.Window]] = {}
    for select in tree.find_all(exp.Select):
        named: dict[str, exp.Window] = {}
        for window in select.args.get("windows") or ():
            name = window.this.name
            if name in named:
                raise SQLSyntaxError(
                    f'window "{name}" is already defined', position=position(window.this)
                )
            _write_out(window, named)
            named[name] = window
        select.set("windows", None)
        defined[id(select)] = named
    for window in all_nodes(tree, exp.Window):
        _write_out(window, defined.get(id(window.parent_select), {}))


def _write_out(window: exp.Window, definitions: dict[str, exp.Window]) -> None:
    """Copy the clauses of the named window. OVER w is that window; OVER (w …) may add an order and
    a frame that w lacks, if w has no frame.
    """
    name = window.args.get("alias")
    if name is None:
        return
    found = definitions.get(name.name)
    if found is None:
        raise UndefinedObject(f'window "{name.name}" does not exist', position=position(name))
    clash = [
        words
        for part, words in (("partition_by", "PARTITION BY"), ("order", "ORDER BY"))
        if window.args.get(part) and (part == "partition_by" or found.args.get(part))
    ]
    if clash:
        raise SQLSyntaxError(
            f'cannot override {clash[0]} clause of window "{name.name}"', position=position(name)
        )
    bare = not (window.args.get("order") or window.args.get("spec"))
    if found.args.get("spec") and not bare:
        raise SQLSyntaxError(
            f'cannot copy window "{name.name}" because it has a frame clause',
            position=position(name),
        )
    window.set("alias", None)
    window.set("partition_by", [part.copy() for part in found.args.get("partition_by") or ()])
    for part in ("order", "spec"):
        inherited = found.args.get(part)
        if inherited is not None:
            window.set(part, inherited.copy())


def spell_out_values(tree: exp.Expr, dialect: str) -> exp.Expr:
    """VALUES (1), (2) becomes SELECT * FROM (VALUES (1), (2)) AS v (column1), and the columns of
    VALUES in FROM are named likewise: both dialects number them, each in its own way.
    """
    for values in all_nodes(tree, exp.Values):
        parent = values.parent
        if isinstance(parent, exp.In):
            continue
        if not isinstance(parent, exp.From | exp.Join):
            select = exp.Select(expressions=[exp.Star()])
            for clause in ("order", "limit", "offset"):
                select.set(clause, values.args.get(clause))
                values.set(clause, None)
            tree = select if values is tree else tree
            values.replace(select)
            select.set("from_", exp.From(this=values))
        alias = values.args.get("alias") or exp.TableAlias(this=exp.to_identifier("v"))
        width = len(values.expressions[0].expressions)
        if not width or any(len(row.expressions) != width for row in values.expressions):
            raise SQLSyntaxError("VALUES lists must all be the same length, and not empty")
        names = [f"column{n + 1}" if dialect == "postgres" else f"col{n}" for n in range(width)]
        given = alias.args.get("columns") or []
        alias.set("columns", [*given, *map(exp.to_identifier, names[len(given) :])])
        values.set("alias", alias)
    return tree


def select_functions(tree: exp.Expr) -> None:
    """FROM current_schema() becomes FROM (SELECT current_schema() AS current_schema) AS
    current_schema, in place, as PostgreSQL reads a function of constants in FROM.

    A function that returns several rows is refused as it is in SELECT.
    """
    for table in all_nodes(tree, exp.Table):
        function = table.this
        if not isinstance(function, exp.Func) or isinstance(function, exp.AggFunc):
            continue
        if function.find(exp.Column, exp.Query) is not None:
            continue
        alias = table.args.get("alias") or exp.TableAlias()
        name = alias.args.get("this") or exp.to_identifier(function_name(function))
        [column] = alias.args.get("columns") or [name]
        item = exp.alias_(function, column.copy())
        table.replace(
            exp.Subquery(
                this=exp.Select(expressions=[item]), alias=exp.TableAlias(this=name.copy())
            )
        )


def spell_out_rows(tree: exp.Expr) -> None:
    """Expand comparisons of a row of columns, in place: (a, b) IN ((1, 2), …) becomes (a = 1 AND
    b = 2) OR …, and likewise = and <>. Other uses of rows stay.

    PostgreSQL compares rows part by part, also if a part is NULL. DuckDB compares them as wholes.
    """
    for node in all_nodes(tree, exp.EQ, exp.NEQ, exp.In):
        columns = _parts(node.this)
        found = node.expressions if isinstance(node, exp.In) else [node.expression]
        rows = [_parts(row) for row in found]
        alike = all(len(row) == len(columns) for row in rows)
        if rows and columns and alike and all(isinstance(c, exp.Column) for c in columns):
            same = exp.paren(_joined(exp.Or, [_equal(columns, row) for row in rows]), copy=False)
            node.replace(exp.Not(this=same) if isinstance(node, exp.NEQ) else same)


def _parts(row: exp.Expr) -> Sequence[exp.Expr]:
    inner = row.unnest()
    return inner.expressions if isinstance(inner, exp.Tuple) else ()


def _equal(columns: Sequence[exp.Expr], row: Sequence[exp.Expr]) -> exp.Expr:
    pairs = zip(columns, row, strict=True)
    every = [exp.EQ(this=column.copy(), expression=own) for column, own in pairs]
    return exp.paren(_joined(exp.And, every), copy=False)


def balance(tree: exp.Expr) -> None:
    """Balance AND and OR, in place. Neither the operands nor their order change.

    The parser nests each operand below the next. A pass that climbs from a column to its SELECT, or
    descends by recursion, would take a step for every operand.
    """
    for node in all_nodes(tree, exp.And, exp.Or):
        if type(node.parent) is not type(node):
            operands = list(node.flatten(unnest=False))
            middle = len(operands) // 2
            node.set("this", _joined(type(node), operands[:middle]))
            node.set("expression", _joined(type(node), operands[middle:]))


def _joined(kind: type[exp.Connector], operands: Sequence[exp.Expr]) -> exp.Expr:
    if len(operands) == 1:
        return operands[0]
    middle = len(operands) // 2
    left, right = _joined(kind, operands[:middle]), _joined(kind, operands[middle:])
    return kind(this=left, expression=right)
