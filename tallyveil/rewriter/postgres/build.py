"""Small pieces of syntax tree, built around nodes without copying them."""

from __future__ import annotations

from sqlglot import exp

__all__ = ["as_type", "call"]


def as_type(node: exp.Expr, kind: str | exp.DataType) -> exp.Cast:
    """``CAST(node AS kind)``, the type by DuckDB's name."""
    return exp.Cast(this=node, to=exp.DataType.build(kind, dialect="duckdb"))


def call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=list(arguments))
