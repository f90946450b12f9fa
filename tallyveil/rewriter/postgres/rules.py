"""The pass: every node of a statement, from the outside in, by the rule of its class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from sqlglot import exp

from tallyveil.rewriter.postgres import casts, comparisons, identifiers, numbers, texts, times
from tallyveil.rewriter.resolve.scope import Scope
from tallyveil.rewriter.sql.nodes import COMPARISONS, visit
from tallyveil.rewriter.sql.types import is_literal_text

__all__ = ["translate"]

Rule: TypeAlias = Callable[..., exp.Expr | None]


def _takes(*families: str | None, hint: str) -> Rule:
    """The rule of a function whose argument is of one of these families."""
    return lambda node, scope: scope.need_family(node, node.this, families, hint)


# DuckDB adds up booleans, and reads numbers from texts.
_NUMBERS: Final = _takes(
    "number",
    "duration",
    None,
    hint="count(*) FILTER (WHERE …) counts the records a condition holds for.",
)
_TEXT: Final = _takes("text", hint="Cast the value to text.")


def _root(node: exp.Sqrt, scope: Scope) -> None:
    if not is_literal_text(node.this):
        scope.need_family(node, node.this, ("number",), "Give it a number.")


def _each(
    kinds: tuple[type[exp.Expr], ...], *rules: Rule
) -> dict[type[exp.Expr], tuple[Rule, ...]]:
    return dict.fromkeys(kinds, rules)


_RULES: Final[Mapping[type[exp.Expr], tuple[Rule, ...]]] = {
    exp.Column: (identifiers.column,),
    exp.TableAlias: (identifiers.relation,),
    exp.Div: (numbers.exact_operands, numbers.divide),
    exp.IntDiv: (numbers.divide_whole,),
    exp.Mod: (numbers.remainder,),
    **_each((exp.Lower, exp.Upper, exp.Trim), _TEXT),
    **_each((exp.Mul, exp.Add, exp.Cbrt), numbers.exact_operands),
    exp.Sub: (numbers.exact_operands, times.subtract),
    exp.Round: (numbers.round_half,),
    exp.Trunc: (numbers.truncate,),
    **_each((exp.Log, exp.Pow, exp.Ln, exp.Exp), numbers.exact_operands, numbers.guard),
    exp.Sqrt: (_root, numbers.exact_operands, numbers.guard),
    **_each(
        (
            exp.Sum, exp.Avg, exp.Variance, exp.VariancePop, exp.Stddev, exp.StddevPop,
            exp.StddevSamp,
        ),
        _NUMBERS,
    ),
    exp.Cast: (casts.cast,),
    exp.Any: (comparisons.any_element,),
    **_each((*COMPARISONS, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Nullif), comparisons.compare),
    exp.Between: (comparisons.between,),
    exp.In: (comparisons.within,),
    exp.Is: (comparisons.test,),
    exp.Tuple: (comparisons.row,),
    exp.Case: (comparisons.case,),
    **_each((exp.Coalesce, exp.Greatest, exp.Least), comparisons.values),
    **_each((exp.Like, exp.ILike), texts.like),
    exp.Escape: (texts.escape,),
    **_each((exp.RegexpLike, exp.RegexpILike), texts.regular),
    exp.Substring: (texts.substring,),
    exp.SplitPart: (texts.split_part,),
    exp.Reverse: (texts.refuse_reverse,),
    exp.DPipe: (texts.join,),
    **_each((exp.Concat, exp.ConcatWs), texts.join_all),
    exp.Extract: (times.extract,),
    **_each((exp.TimestampTrunc, exp.DateTrunc), times.truncate),
    exp.TimeToStr: (times.write,),
    exp.Anonymous: (times.finite, times.make),
}  # fmt: skip


def translate(tree: exp.Expr, scope: Scope) -> None:
    """Translate the statement in place.

    Outer nodes come first: a rule sees its node's parts as the analyst wrote them, and puts each
    of them exactly once into what it returns.

    Raises a StatementError at the first construct that has no exact translation.
    """

    def by_rule(node: exp.Expr) -> None:
        for rule in _RULES.get(type(node), ()):
            replacement = rule(node, scope)
            if replacement is not None:
                node.replace(replacement)
                break

    visit(list(tree.walk()), by_rule)
