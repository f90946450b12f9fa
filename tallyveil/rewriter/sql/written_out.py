"""Short forms of SQL, written out before anything else looks at the tree."""

from __future__ import annotations

from sqlglot import exp

from tallyveil.rewriter.sql.quantifiers import spell_out_quantifiers
from tallyveil.rewriter.sql.windows import write_out_windows

__all__ = ["write_out"]


def write_out(tree: exp.Expr) -> None:
    """SOME and ALL, the names of WINDOW, and the list of EXISTS (SELECT FROM …), in place."""
    spell_out_quantifiers(tree)
    write_out_windows(tree)
    for exists in tree.find_all(exp.Exists):
        query = exists.this.unnest() if isinstance(exists.this, exp.Subquery) else exists.this
        if isinstance(query, exp.Select) and not query.expressions:
            query.set("expressions", [exp.Literal.number(1)])
