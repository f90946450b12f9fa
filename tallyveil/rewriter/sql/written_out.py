"""Short forms of SQL, written out before anything else looks at the tree."""

from __future__ import annotations

from sqlglot import exp

from tallyveil.rewriter.sql.quantifiers import spell_out_quantifiers
from tallyveil.rewriter.sql.windows import write_out_windows

__all__ = ["write_out"]


def write_out(tree: exp.Expr) -> None:
    """SOME, ALL, the names of WINDOW, the list of EXISTS (SELECT FROM …) and date(x), in place."""
    spell_out_quantifiers(tree)
    write_out_windows(tree)
    for exists in tree.find_all(exp.Exists):
        query = exists.this.unnest() if isinstance(exists.this, exp.Subquery) else exists.this
        if isinstance(query, exp.Select) and not query.expressions:
            query.set("expressions", [exp.Literal.number(1)])
    for date in tree.find_all(exp.Date):
        if date.this is not None and not any(date.args.get(n) for n in ("zone", "expressions")):
            cast = exp.cast(date.this, "date")
            item = isinstance(date.parent, exp.Select) and date.arg_key == "expressions"
            date.replace(exp.alias_(cast, "date", quoted=True) if item else cast)
