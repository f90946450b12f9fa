"""Division, rounding, roots and powers.

PostgreSQL divides integers to an integer, raises on a zero divisor, and rounds halves of a double
to the even number, but halves of a numeric away from zero.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from sqlglot import exp

from tallyveil.errors import FeatureNotSupported, UndefinedFunction
from tallyveil.rewriter.postgres.topic import Rules, each, need_family, takes
from tallyveil.rewriter.resolve.bound import Bound
from tallyveil.rewriter.resolve.record_queries import at_record_level
from tallyveil.rewriter.sql.nodes import as_type, call, function_name, position
from tallyveil.rewriter.sql.types import INTEGERS, NUMERICS, is_literal_text, postgres_type
from tallyveil.rewriter.sql.vocabulary import SUMS

__all__ = ["MACROS", "RULES", "refuse_inexact"]


def divide(node: exp.Div, bound: Bound) -> exp.Expr:
    """DuckDB's ``//`` raises on zero; it truncates integers and divides doubles as they are."""
    left, right = node.this, node.expression
    kinds = bound.type_of(left), bound.type_of(right)
    if "INTERVAL" in kinds:
        raise FeatureNotSupported(
            "dividing an interval is not answered",
            hint="Write the interval you mean: INTERVAL '36 hours'.",
        )
    if all(kind in INTEGERS for kind in kinds) or None in kinds:
        return exp.IntDiv(this=left, expression=right)
    left, right = _scaled(left, right, kinds[0])
    return exp.IntDiv(this=as_type(left, "DOUBLE"), expression=right)


def _scaled(left: exp.Expr, right: exp.Expr, kind: str | None) -> tuple[exp.Expr, exp.Expr]:
    """Turn ``a / 0.1`` into ``a·10 / 1``: both are exact then, so the quotient rounds correctly."""
    if not isinstance(right, exp.Literal) or "." not in right.this or "e" in right.this.lower():
        return left, right
    decimals = len(right.this.rstrip("0").partition(".")[2])
    if not 0 < decimals <= 6 or not (kind in INTEGERS or kind == "NUMERIC"):
        return left, right
    base = as_type(left, "BIGINT") if kind in INTEGERS else exp.paren(left, copy=False)
    divisor = int(Decimal(right.this).scaleb(decimals))
    scaled = exp.Mul(this=base, expression=exp.Literal.number(10**decimals))
    return scaled, exp.Literal.number(divisor)


def divide_whole(node: exp.IntDiv, bound: Bound) -> None:
    """Allow ``div(a, b)`` of integers only: of numerics it is a truncated quotient."""
    kinds = bound.type_of(node.this), bound.type_of(node.expression)
    if not all(kind in INTEGERS for kind in kinds):
        raise FeatureNotSupported(
            "div of numbers that are not integers is not answered", hint="Write trunc(a / b)."
        )


def exact_operands(node: exp.Expr, bound: Bound) -> None:
    """Refuse arithmetic on a quotient whose last digit could decide."""
    if bound.type_of(node) == "INEXACT":
        refuse_inexact(node, bound, _in_doubles(node) if isinstance(node, exp.Func) else None)


def _in_doubles(node: exp.Func) -> str:
    """How to write the function in double precision, where PostgreSQL has no log to a base."""
    if node.args.get("expression") is None:
        return f"{function_name(node)}(a::float8)"
    if isinstance(node, exp.Log):
        return "ln(a::float8) / ln(b::float8) for log(b, a)"
    return f"{function_name(node)}(a::float8, b::float8)"


def remainder(node: exp.Mod, bound: Bound) -> None:
    """PostgreSQL has no remainder of double precision."""
    if "DOUBLE" in (bound.type_of(node.this), bound.type_of(node.expression)):
        raise UndefinedFunction(
            "mod of double precision does not exist",
            hint="Cast the number to numeric(p, s) or to bigint.",
        )


def round_half(node: exp.Round, bound: Bound) -> exp.Expr | None:
    kind = bound.type_of(node.this)
    if node.args.get("decimals") is not None:
        _to_decimals(node, kind, bound)
    elif kind is None and at_record_level(node):
        raise FeatureNotSupported(
            "round of a value of unknown type is not answered",
            hint="Cast it: numeric(p, s) rounds halves away from zero, double precision to even.",
        )
    elif kind == "DOUBLE":
        return call("round_even", node.this, exp.Literal.number(0))
    return None


def truncate(node: exp.Trunc, bound: Bound) -> None:
    if node.args.get("decimals") is not None:
        _to_decimals(node, bound.type_of(node.this), bound)


def _to_decimals(node: exp.Func, kind: str | None, bound: Bound) -> None:
    name = function_name(node)
    if kind == "DOUBLE":
        raise UndefinedFunction(
            f"function {name}(double precision, integer) does not exist",
            hint="Cast the number to numeric(p, s) instead.",
        )
    if kind is not None and kind not in (*INTEGERS, *NUMERICS):
        raise UndefinedFunction(f"{name} takes a number, not a {postgres_type(kind)}")
    if bound.type_of(node) == "INEXACT":
        refuse_inexact(node, bound)


def guard(node: exp.Func, bound: Bound) -> exp.Expr | None:
    """Raise, as PostgreSQL does, if a root, a power or a logarithm has no value. DuckDB returns NaN
    or infinity, which compare as greater than every number. Over noisy rows DuckDB's values stay:
    noise may make arguments that no true value would.
    """
    if not at_record_level(node):
        return None
    second = node.args.get("expression")
    if isinstance(node, exp.Log) and second is not None:
        # Both must be positive: the guards change no value that exists.
        node.set("this", call("__pg_positive", node.this))
        node.set("expression", call("__pg_positive", second))
        return None
    return call(_GUARDED[type(node)], *(node.this, second) if second is not None else (node.this,))


_GUARDED: Final = {
    exp.Sqrt: "__pg_sqrt", exp.Ln: "__pg_ln", exp.Log: "__pg_log", exp.Exp: "__pg_exp",
    exp.Pow: "__pg_power",
}  # fmt: skip


def refuse_inexact(node: exp.Expr, bound: Bound, in_doubles: str | None = None) -> None:
    """Raise FeatureNotSupported unless the value is one of noisy rows: there an error in the last
    digit of a quotient changes the answer by as much, and decides which records count nowhere.
    """
    if at_record_level(node):
        raise FeatureNotSupported(
            "arithmetic on a numeric quotient is not answered where its last digit could decide",
            hint="Divide last, or in double precision: (a * 3)::float8 / b."
            if in_doubles is None
            else f"Compute it in double precision: {in_doubles}.",
        )


def _root(node: exp.Sqrt, bound: Bound) -> None:
    if not is_literal_text(node.this):
        need_family(node, node.this, ("number",), "Give it a number.", bound)


def bucket(node: exp.WidthBucket, bound: Bound) -> exp.Expr:
    """The number of the interval of equal width that a number is in, exactly."""
    arguments = [node.this, *map(node.args.get, ("min_value", "max_value", "num_buckets"))]
    for argument in arguments:
        if bound.type_of(argument) not in (*INTEGERS, "NUMERIC"):
            raise FeatureNotSupported(
                "width_bucket of other than integers and decimals is not answered",
                hint="Cast to numeric: width_bucket(a::numeric, 0, 100, 10).",
                position=position(argument),
            )
    return call("__pg_width_bucket", *arguments)


def _continuous(node: exp.PercentileCont, bound: Bound) -> None:
    """PostgreSQL's is a double, also of decimals."""
    if bound.type_of(node.this) in NUMERICS:
        node.set("this", exp.cast(node.this, "double"))


# DuckDB adds up booleans, and reads numbers from texts.
_NUMBERS: Final = takes(
    "number",
    "duration",
    None,
    hint="count(*) FILTER (WHERE …) counts the records a condition holds for.",
)

RULES: Final[Rules] = {
    **each((exp.Mul, exp.Add, exp.Sub, exp.Cbrt), exact_operands),
    exp.Div: (exact_operands, divide),
    exp.IntDiv: (divide_whole,),
    exp.Mod: (remainder,),
    exp.Round: (round_half,),
    exp.Trunc: (truncate,),
    **each((exp.Log, exp.Pow, exp.Ln, exp.Exp), exact_operands, guard),
    exp.WidthBucket: (bucket,),
    exp.Sqrt: (_root, exact_operands, guard),
    **each(SUMS, _NUMBERS),
    exp.PercentileCont: (_continuous,),
}

# A lambda evaluates its argument once; a macro repeats an argument wherever it uses it.
MACROS: Final = (
    "__pg_sqrt(x) AS list_transform([CAST(x AS DOUBLE)], lambda v: CASE WHEN v < 0 "
    "THEN error('cannot take square root of a negative number') ELSE sqrt(v) END)[1]",
    "__pg_positive(x) AS list_transform([CAST(x AS DOUBLE)], lambda v: CASE WHEN v <= 0 "
    "THEN error('cannot take logarithm of a number that is not positive') ELSE v END)[1]",
    "__pg_width_bucket(x, a, b, n) AS CASE "
    "WHEN n < 1 THEN error('count must be greater than zero') "
    "WHEN a = b THEN error('lower bound cannot equal upper bound') "
    "WHEN a < b AND x < a OR a > b AND x > a THEN 0 "
    "WHEN a < b AND x >= b OR a > b AND x <= b THEN CAST(n AS INTEGER) + 1 "
    "ELSE CAST(floor((x - a) * n / (b - a)) AS INTEGER) + 1 END",
    "__pg_ln(x) AS ln(__pg_positive(x))",
    "__pg_log(x) AS log10(__pg_positive(x))",
    "__pg_finite(x) AS list_transform([x], lambda v: CASE WHEN isinf(v) "
    "THEN error('value out of range: overflow') ELSE v END)[1]",
    "__pg_exp(x) AS __pg_finite(exp(x))",
    "__pg_power(x, y) AS list_transform([CAST(x AS DOUBLE)], lambda a: "
    "list_transform([CAST(y AS DOUBLE)], lambda b: CASE WHEN a = 0 AND b < 0 "
    "THEN error('zero raised to a negative power is undefined') WHEN a < 0 AND b <> floor(b) "
    "THEN error('a negative number raised to a non-integer power yields a complex result') "
    "ELSE __pg_finite(pow(a, b)) END)[1])[1]",
)
