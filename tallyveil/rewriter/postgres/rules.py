"""The pass: every node of a statement, from the outside in, by the rule of its class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from sqlglot import exp

from tallyveil import deadline
from tallyveil.rewriter.postgres import (
    arrays,
    casts,
    comparisons,
    functions,
    identifiers,
    numbers,
    patterns,
    texts,
    times,
)
from tallyveil.rewriter.resolve.scope import Scope

__all__ = ["translate"]

Rule: TypeAlias = Callable[..., exp.Expr | None]

_RULES: Final[Mapping[type[exp.Expr], tuple[Rule, ...]]] = MappingProxyType(
    {
        exp.Column: (identifiers.column,),
        exp.TableAlias: (identifiers.relation,),
        exp.Div: (numbers.exact_operands, numbers.divide),
        exp.IntDiv: (numbers.divide_whole,),
        exp.Mod: (numbers.remainder,),
        exp.Lower: (texts.need_text,),
        exp.Upper: (texts.need_text,),
        exp.Trim: (texts.need_text,),
        exp.Mul: (numbers.exact_operands,),
        exp.Add: (numbers.exact_operands,),
        exp.Sub: (numbers.exact_operands, times.subtract),
        exp.Round: (numbers.round_half,),
        exp.Trunc: (numbers.truncate,),
        exp.Log: (numbers.exact_operands, functions.logarithm),
        exp.Pow: (numbers.exact_operands, functions.power),
        exp.Sqrt: (numbers.need_number, numbers.exact_operands, functions.root),
        exp.Cbrt: (numbers.exact_operands,),
        exp.Ln: (numbers.exact_operands, functions.logarithm),
        exp.Exp: (numbers.exact_operands, functions.exponential),
        exp.Sum: (numbers.add_up,),
        exp.Avg: (numbers.add_up,),
        exp.Variance: (numbers.add_up,),
        exp.VariancePop: (numbers.add_up,),
        exp.Stddev: (numbers.add_up,),
        exp.StddevPop: (numbers.add_up,),
        exp.StddevSamp: (numbers.add_up,),
        exp.Cast: (casts.cast,),
        exp.Any: (arrays.any_element,),
        exp.EQ: (comparisons.compare,),
        exp.NEQ: (comparisons.compare,),
        exp.LT: (comparisons.compare,),
        exp.LTE: (comparisons.compare,),
        exp.GT: (comparisons.compare,),
        exp.GTE: (comparisons.compare,),
        exp.NullSafeEQ: (comparisons.compare,),
        exp.NullSafeNEQ: (comparisons.compare,),
        exp.Between: (comparisons.between,),
        exp.In: (comparisons.within,),
        exp.Is: (comparisons.test,),
        exp.Tuple: (comparisons.row,),
        exp.Case: (comparisons.case,),
        exp.Coalesce: (comparisons.values,),
        exp.Greatest: (comparisons.values,),
        exp.Least: (comparisons.values,),
        exp.Nullif: (comparisons.compare,),
        exp.Like: (patterns.like,),
        exp.ILike: (patterns.like,),
        exp.Escape: (patterns.escape,),
        exp.RegexpLike: (patterns.regular,),
        exp.RegexpILike: (patterns.regular,),
        exp.Substring: (texts.substring,),
        exp.SplitPart: (texts.split_part,),
        exp.Reverse: (texts.refuse_reverse,),
        exp.DPipe: (texts.join,),
        exp.Concat: (texts.join_all,),
        exp.ConcatWs: (texts.join_all,),
        exp.Extract: (times.extract,),
        exp.TimestampTrunc: (times.truncate,),
        exp.DateTrunc: (times.truncate,),
        exp.TimeToStr: (times.write,),
        exp.Anonymous: (times.finite, times.make),
    }
)


def translate(tree: exp.Expr, scope: Scope) -> None:
    """Translate the statement in place.

    Outer nodes come first: a rule sees its node's parts as the analyst wrote them, and puts each
    of them exactly once into what it returns.

    Raises a StatementError at the first construct that has no exact translation.
    """
    for node in list(tree.walk()):
        deadline.check()
        for rule in _RULES.get(type(node), ()):
            replacement = rule(node, scope)
            if replacement is not None:
                node.replace(replacement)
                break
