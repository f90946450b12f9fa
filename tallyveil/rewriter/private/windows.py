"""Windows over a block's groups that add up its answers: running totals, moving sums, totals.

    SELECT day, sum(count(*)) OVER (ORDER BY day) FROM visit GROUP BY day

asks of each day how many visits there were up to it, a linear query like the counts themselves. So
it is planned as rows that are sums of other rows, as coarser grouping sets are: they have intervals
of their own, and strategies may buy others for all rows together.

That needs frames that depend on the groups alone. Their order is by keys, and where a frame counts
rows, no two of a partition have the same keys. Other windows are evaluated over the noisy rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse
from sqlglot import exp

from tallyveil.alike import group_equal
from tallyveil.arrays import IntArray
from tallyveil.rewriter.domain.evaluate import Evaluated
from tallyveil.rewriter.engine.public_cursor import PublicCursor
from tallyveil.rewriter.private.block import NOISY
from tallyveil.rewriter.private.linear import Linear, linear
from tallyveil.rewriter.resolve.record_queries import is_aggregate
from tallyveil.rewriter.sql.nodes import call, duckdb_sql, function_name
from tallyveil.rewriter.sql.vocabulary import ABOUT_ANSWERS
from tallyveil.workload.workload import Column, Factor

__all__ = ["Sums", "added_up", "is_sum_of_groups", "sums_over_frames"]

Sums: TypeAlias = tuple[Column, IntArray, IntArray, IntArray]
"""Sums of an output's distinct rows: a column of them, the row of each group, and which rows each
adds up (`Summed`)."""

_PARTS: Final = 500_000  # rows that all frames add up
_ENTRIES: Final = 2_000_000  # of a column that is no product
_GROUPS: Final = "__groups"
_ROW: Final = exp.column("__row", quoted=True)


def is_sum_of_groups(node: exp.Expr) -> bool:
    """Whether it is a SUM or AVG over groups, of a linear combination of aggregates and in an order
    that depends on keys alone."""
    return isinstance(node, exp.Window) and added_up(node) is not None and not any(_noisy(node))


def added_up(node: exp.Window) -> Linear | None:
    """What the window adds up; None if that is not linear, or has a constant part."""
    found = linear(node.this.this) if type(node.this) in (exp.Sum, exp.Avg) else None
    return None if found is None or found.constants or not found.terms else found


def _noisy(node: exp.Window) -> Iterator[exp.Expr]:
    """What partitions or orders by answers, or by a query."""
    order = node.args.get("order")
    for part in [*(node.args.get("partition_by") or ()), *([order] if order is not None else [])]:
        for one in part.walk():
            about = isinstance(one, exp.Anonymous) and function_name(one) in ABOUT_ANSWERS
            if is_aggregate(one) or about or isinstance(one, exp.Query):
                yield one


def sums_over_frames(
    window: exp.Window, evaluated: Evaluated, number: int, cursor: PublicCursor
) -> Sums | None:
    """The sums of the rows of the output ``number`` over the frames of a window over the noisy
    rows; None if frames depend on more than the keys, are empty, add up too much or one row twice.
    """
    height = evaluated.height
    found = _frames(window, evaluated.keys, height, cursor)
    if found is None:
        return None
    groups, parts = found
    column, rows = evaluated.outputs[number].distinct
    parts = parts if rows is None else rows[parts]
    if len(np.unique(groups * column.height + parts)) < len(parts):
        return None
    made = _columns(column, groups, parts, height)
    if made is None:
        return None
    whole, numbers = made
    selected, first, places = np.unique(numbers, return_index=True, return_inverse=True)
    if len(selected) < whole.product_height:
        whole = replace(whole, selected=selected)
    rows = places.ravel().astype(np.int64)
    kept = first[rows[groups]] == groups
    return whole, rows, parts[kept], rows[groups[kept]]


def _frames(
    window: exp.Window, keys: pa.Table, height: int, cursor: PublicCursor
) -> tuple[IntArray, IntArray] | None:
    """The groups, and of each all groups of its frame, one after the other."""
    if not (height and keys.num_columns):
        return None  # nothing is added up
    table = keys.append_column(_ROW.name, pa.array(range(height), pa.int64()))
    source = exp.to_table(_GROUPS).as_(NOISY, quoted=True)
    spec = window.args.get("spec")
    counted, peers = _of(window, exp.Count(this=exp.Star())), "1"
    if spec is not None and spec.args.get("kind") == "ROWS":
        alike = _of(window, exp.Count(this=exp.Star()))
        here = {"start": "CURRENT ROW", "end": "CURRENT ROW"}
        alike.set("spec", exp.WindowSpec(kind="RANGE", **here))
        peers = duckdb_sql(alike)
    with cursor.tables({_GROUPS: table}):
        of_each = f"SELECT {duckdb_sql(counted)} AS n, {peers} AS peers FROM {duckdb_sql(source)}"
        (sizes,) = cursor.arrow(
            f"SELECT min(n) AS least, sum(n)::BIGINT AS parts, max(peers) AS peers FROM ({of_each})"
        ).to_pylist()
        if not sizes["least"] or sizes["peers"] > 1 or sizes["parts"] > _PARTS:
            return None
        frames = duckdb_sql(_of(window, call("list", _ROW.copy())))
        found = cursor.arrow(
            f"SELECT {duckdb_sql(_ROW)} AS place, {frames} AS parts FROM {duckdb_sql(source)}"
        )
    places, parts = (found.column(name).combine_chunks() for name in ("place", "parts"))
    lengths = pc.list_value_length(parts).to_numpy(zero_copy_only=False)
    groups = np.repeat(places.to_numpy(), lengths).astype(np.int64)
    return groups, parts.flatten().to_numpy().astype(np.int64)


def _of(window: exp.Window, function: exp.Expr) -> exp.Window:
    copy = window.copy()
    copy.set("this", function)
    return copy


def _columns(
    column: Column, groups: IntArray, parts: IntArray, height: int
) -> tuple[Column, IntArray] | None:
    """A column with all sums over frames, and the row of each group. Where each frame is a product
    of rows of the column's factors, it is a product of sums of theirs."""
    factors, codes = list[Factor](), list[IntArray]()
    sizes = np.ones(height, dtype=np.int64)
    each = column.factor_rows(column.numbers[parts])
    for factor, own in zip(column.factors, each, strict=True):
        pairs = np.unique(groups * factor.height + own)
        of, row = np.divmod(pairs, factor.height)
        ends = np.searchsorted(of, np.arange(height + 1))
        sizes *= np.diff(ends)
        alike = group_equal([], (ends, [row]))
        first = np.unique(alike)
        first = first[np.lexsort((row[ends[first]], row[ends[first + 1] - 1]))]
        rank = np.zeros(height, dtype=np.int64)
        rank[first] = np.arange(len(first))
        frames = sparse.csr_matrix((np.ones_like(row), row, ends), (height, factor.height))
        sums = sparse.csr_matrix(frames[first] @ factor.sparse())
        factors.append(Factor.of_sparse(factor.axes, factor.shape, sums))
        codes.append(rank[alike])
    if (sizes == np.bincount(groups, minlength=height)).all():
        number = np.zeros(height, dtype=np.int64)
        for factor, code in zip(factors, codes, strict=True):
            number = number * factor.height + code
        return Column(tuple(factors), column.multiplier), number
    joint = column.multiplied_out(_ENTRIES)
    if joint is None or len(parts) / max(1, column.height) * joint.entries.sum() > _ENTRIES:
        return None
    return _columns(Column((joint,), column.multiplier), groups, parts, height)
