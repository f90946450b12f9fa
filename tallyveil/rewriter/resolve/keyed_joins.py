"""Joins of two protected tables of the same units along their declared key.

A keyed table's cells have the attributes of its head's row of the same unit as further axes, and
one that says whether the head has a counted row (`policy.shared_units`). So a row of the join is a
record of the keyed table:

    visit AS v JOIN person AS p ON v.pid = p.pid WHERE p.sex = 'F'
    → records of visit WHERE "person.pid" AND "person.sex" = 'F'

A record of visit without one of person is in no row of JOIN, and with NULLs in one of LEFT JOIN.
The key itself is no attribute: it is named in the condition of the join only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from sqlglot import exp

from tallyveil.errors import FeatureNotSupported
from tallyveil.policy.domain import Key
from tallyveil.rewriter.resolve.branches import RECORD, Branch, Records
from tallyveil.rewriter.resolve.record_queries import holds_records, sources
from tallyveil.rewriter.sql.nodes import conjunction, conjuncts, is_star, position

__all__ = ["KeyedJoins", "forget_keys"]


class KeyedJoins:
    """The joins along keys in the FROM of one SELECT."""

    def __init__(self, keys: Mapping[str, Key], select: exp.Select) -> None:
        self._keys = keys
        self._select = select
        self._shown: dict[str, str] = {}
        """The items of FROM that show the key of their records' table, with that table."""

    def add(self, source: exp.Expr, records: Records) -> None:
        if _shows_key(source):
            self._shown[source.alias_or_name] = records.domain.table

    def joined(
        self,
        records: Records,
        other: Records,
        step: exp.Join,
        check: Callable[[exp.Expr, Records], None],
    ) -> list[Records]:
        """The records of FROM with those of the step: the rows that match and, for an outer join,
        those that do not. ``check`` looks at a condition over records.

        Raises FeatureNotSupported unless they are joined along a key.
        """
        key = self._key(records, other, step)
        conditions = self._without_key(key, records, other, step)
        head_first = records.domain.table == key.head
        keyed, head = (other, records) if head_first else (records, other)
        outer = bool(step.side)
        _refuse_outer(key, keyed, head, step, "RIGHT" if head_first else "LEFT")
        found = [_of_head(branch, key) for branch in head.branches]
        pairs = [(own, theirs) for own in keyed.branches for theirs in found]

        def rows(of_head: Callable[[Branch], list[exp.Expr]]) -> Records:
            branches = []
            for own, theirs in pairs:
                values = [of_head(theirs), own.values]
                left, right = values if head_first else values[::-1]
                joins = [*own.joins, *theirs.joins]
                branches.append(Branch(joins, [*own.where], [*left, *right]))
            return replace(keyed, fields=[*records.fields, *other.fields], branches=branches)

        matching = rows(lambda theirs: theirs.values)
        missing = rows(lambda theirs: [exp.Null() for _ in theirs.values])
        for condition in conditions:
            check(condition, matching)
        for branch, rest, (_, theirs) in zip(
            matching.branches, missing.branches, pairs, strict=True
        ):
            match = [exp.column(key.found, RECORD, quoted=True), *theirs.where]
            match += [matching.substitute(condition, branch) for condition in conditions]
            branch.where += match
            if outer:
                met = exp.func("coalesce", conjunction([m.copy() for m in match]), exp.false())
                rest.where.append(exp.Not(this=met))
        return [matching, missing] if outer else [matching]

    def _key(self, records: Records, other: Records, step: exp.Join) -> Key:
        """The key between the two tables of which these are records."""
        first, second = records.domain.table, other.domain.table
        for table, head in ((first, second), (second, first)):
            key = self._keys.get(table)
            if key is not None and key.head == head:
                return key
        hint = (
            "Ask about one protected table at a time; join the results of two queries that count."
        )
        if first != second:
            on = step.args.get("on")
            named = [*(step.args.get("using") or ()), *(on.find_all(exp.Column) if on else ())]
            column = named[0].name if named else "pid"
            hint += (
                f" If {column} is the privacy unit of both, and {second} has one row of each, the"
                f' custodian can declare [tables.{first}.keys] {column} = "{second}.{column}".'
            )
        raise FeatureNotSupported(
            "joining records with records is not answered: one record could change many rows",
            hint=hint,
            position=position(step.this),
        )

    def _without_key(
        self, key: Key, records: Records, other: Records, step: exp.Join
    ) -> list[exp.Expr]:
        """The conditions of the step besides the key's. If WHERE has the key's, it loses it."""
        table, new = other.domain.table, step.this.alias_or_name
        earlier = [name for name, one in self._shown.items() if one == records.domain.table]
        last = [new] if _shows_key(step.this) else []
        shown = (earlier, last) if table == key.head else (last, earlier)
        on, where = step.args.get("on"), self._select.args.get("where")
        using = [name.name.lower() for name in step.args.get("using") or ()]
        conditions = [] if on is None else conjuncts(on)
        rest = [one for one in conditions if not _is_key(one, key, *shown)]
        if using == [key.column.lower()] == [key.head_column.lower()] and all(shown):
            return rest
        if len(rest) < len(conditions):
            return rest
        if where is not None and not using and not step.side:
            conditions = conjuncts(where.this)
            others = [one for one in conditions if not _is_key(one, key, *shown)]
            if len(others) < len(conditions):
                if others:
                    where.set("this", conjunction([one.copy() for one in others]))
                else:
                    self._select.set("where", None)
                return rest
        columns = (key.head_column, key.column)
        own, theirs = columns[::-1] if table == key.head else columns
        raise FeatureNotSupported(
            f"{records.domain.table} and {table} are joined along their key only",
            hint=f"Write JOIN … ON {[*earlier, records.domain.table][0]}.{own} = {new}.{theirs}."
            " Of a query in FROM, the key is known only if it is SELECT * of the table.",
            position=position(step.this),
        )


def forget_keys(select: exp.Select, keys: Collection[Key]) -> None:
    """Remove conditions of keys from a SELECT that never has rows, in which nothing shows them."""
    pairs = [{key.column.lower(), key.head_column.lower()} for key in keys]
    joins = select.args.get("joins") or ()
    for join in joins:
        if {name.name.lower() for name in join.args.get("using") or ()} in pairs:
            join.set("using", None)
            join.set("on", exp.true())
    for clause in (*joins, select.args.get("where")):
        for node in list(clause.find_all(exp.EQ)) if clause is not None else ():
            sides = node.left.unnest(), node.right.unnest()
            columns = all(isinstance(side, exp.Column) for side in sides)
            if columns and {side.name.lower() for side in sides} in pairs:
                node.replace(exp.true())


def _shows_key(source: exp.Expr) -> bool:
    """Whether an item of FROM has the key of its records' table: the table, or SELECT * of it."""
    while isinstance(source, exp.Subquery):
        query = source.this
        if not isinstance(query, exp.Select) or not any(map(is_star, query.expressions)):
            return isinstance(query, exp.Subquery) and _shows_key(query)
        items = [item for item in sources(query) if holds_records(item)]
        if len(items) != 1:
            return False
        source = items[0]
    return isinstance(source, exp.Table)


def _is_key(node: exp.Expr, key: Key, keyed: Collection[str], heads: Collection[str]) -> bool:
    """Whether the condition equates the key's column of one of the ``keyed`` items with that of one
    of ``heads``. A column may go without its table if the other one has another name."""
    inner = node.unnest()
    if not isinstance(inner, exp.EQ):
        return False
    alone = key.column.lower() != key.head_column.lower()

    def names(side: exp.Expr, column: str, items: Collection[str]) -> bool:
        if not isinstance(side, exp.Column) or side.name.lower() != column.lower():
            return False
        return side.table in items if side.table else alone and bool(items)

    sides = inner.left.unnest(), inner.right.unnest()
    return any(
        names(first, key.column, keyed) and names(second, key.head_column, heads)
        for first, second in (sides, sides[::-1])
    )


def _of_head(branch: Branch, key: Key) -> Branch:
    """A branch over records of the head, over those of the keyed table."""

    def renamed(node: exp.Expr) -> exp.Expr:
        holder = exp.Paren(this=node.copy())
        for column in holder.find_all(exp.Column):
            if column.table == RECORD:
                column.this.set("this", key.axis(column.name))
        result: exp.Expr = holder.this
        return result

    joins = [join for join in map(renamed, branch.joins) if isinstance(join, exp.Join)]
    return Branch(joins, [*map(renamed, branch.where)], [*map(renamed, branch.values)])


def _refuse_outer(key: Key, keyed: Records, head: Records, step: exp.Join, kept: str) -> None:
    """Refuse an outer join that keeps rows without a record, or whose rows that do not match are
    not those of one condition."""
    side = (step.side or "").upper()
    if side not in ("", kept):
        what = f"a join that keeps rows of {key.head} without a record"
    elif side and (len(head.branches) > 1 or head.branches[0].joins):
        what = f"an outer join of a query over {key.head} with others"
    elif any(
        join.side not in (None, "", "LEFT")
        for branch in (*keyed.branches, *head.branches)
        for join in branch.joins
    ):
        what = "a join that keeps rows without a record"
    else:
        return
    raise FeatureNotSupported(
        f"{what} is not answered below the aggregation",
        hint=f"Use JOIN, or LEFT JOIN {key.head}.",
        position=position(step.this),
    )
