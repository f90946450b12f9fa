"""Faults by rule: a comparison, a sign, a bound, a condition or a statement that is replaced.

They are sampled under a seed, of each room in proportion to its lines, so that the share of those
that the tests find can be compared when code and tests have changed.
"""

from __future__ import annotations

import ast
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.mutants.mutation import ROOT, Mutation, room_of

__all__ = ["faults_in", "sampled_faults"]

_LEAST = 6  # of each room

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_FUNCTIONS = {
    "min": "max",
    "max": "min",
    "floor": "ceil",
    "ceil": "floor",
    "any": "all",
    "all": "any",
    "minimum": "maximum",
    "maximum": "minimum",
}


def _replaced(node: ast.AST) -> Iterator[ast.AST]:
    """What may stand in its place."""
    match node:
        case ast.Compare(left, [op, *ops], comparators) if type(op) in _COMPARISONS:
            yield ast.Compare(left, [_COMPARISONS[type(op)](), *ops], comparators)
        case ast.BoolOp(op, values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.UnaryOp(ast.Not() | ast.USub(), operand):
            yield operand
        case ast.BinOp(left, op, right) if type(op) in _ARITHMETIC:
            yield ast.BinOp(left, _ARITHMETIC[type(op)](), right)
        case ast.Constant(bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(int(value)):
            yield ast.Constant(value + 1)
        case ast.Call(ast.Name(name), arguments, keywords) if name in _FUNCTIONS:
            yield ast.Call(ast.Name(_FUNCTIONS[name]), arguments, keywords)
        case ast.Call(ast.Attribute(value, name), arguments, keywords) if name in _FUNCTIONS:
            yield ast.Call(ast.Attribute(value, _FUNCTIONS[name]), arguments, keywords)
        case ast.Expr(ast.Call()) | ast.Raise() | ast.AugAssign() | ast.Continue() | ast.Break():
            yield ast.Pass()


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all below it that is executed, without hints of types and decorators. Python 3.11
    does not tell where in a text the expressions are that it formats."""
    if isinstance(node, ast.JoinedStr):
        return
    yield node
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "bases", "type_params"):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _code(child)


def faults_in(path: str, text: str) -> list[Mutation]:
    """All faults of a file, in the order of the text."""
    return [_stated(path, text, *site) for site in _sites(text)]


def _sites(text: str) -> list[tuple[ast.AST, ast.AST]]:
    return [(node, new) for node in _code(ast.parse(text)) for new in _replaced(node)]


def _stated(path: str, text: str, node: ast.AST, replacement: ast.AST) -> Mutation:
    lines = text.splitlines(keepends=True)
    assert isinstance(node, ast.expr | ast.stmt)
    assert node.end_lineno is not None
    assert node.end_col_offset is not None

    def place(line: int, byte: int) -> int:
        before = lines[line - 1].encode()[:byte].decode()
        return sum(map(len, lines[: line - 1])) + len(before)

    start = place(node.lineno, node.col_offset)
    old = text[start : place(node.end_lineno, node.end_col_offset)]
    new = ast.unparse(ast.fix_missing_locations(replacement))
    new = f"({new})" if isinstance(node, ast.expr) else new
    name = f"{path}:{node.lineno}:{node.col_offset} {type(node).__name__}"
    return Mutation(name, f"{old} → {new}", path, old, new, start)


def sampled_faults(number: int, seed: int, root: Path = ROOT) -> list[Mutation]:
    """About so many faults of the package at ``root``."""
    sites: dict[str, list[tuple[str, str, ast.AST, ast.AST]]] = defaultdict(list)
    lines: Counter[str] = Counter()
    for file in sorted((root / "tallyveil").rglob("*.py")):
        path, text = file.relative_to(root).as_posix(), file.read_text(encoding="utf-8")
        sites[room_of(path)] += [(path, text, *site) for site in _sites(text)]
        lines[room_of(path)] += text.count("\n")
    chooser, chosen = random.Random(seed), []
    for room in sorted(sites):
        share = max(_LEAST, round(number * lines[room] / lines.total()))
        chosen += chooser.sample(sites[room], min(share, len(sites[room])))
    return [_stated(*site) for site in chosen]
