"""What PostgreSQL calls a column that the statement gives no name."""

from __future__ import annotations

import psycopg
import pytest

from tallyveil.rewriter import parse_query
from tallyveil.rewriter.sql.naming import name_columns

ITEMS = [
    "1 + 1", "-1", "null", "true and false", "2 ^ 3", "'x' like 'y'", "1 between 0 and 2",
    "length('x')", "trim('x')", "trim(leading from 'x')", "coalesce(1, 2)", "nullif(1, 2)",
    "extract(day from date '2020-01-01')", "sum(1) over ()", "count(*)", "current_user",
    "exists (select 1)", "interval '1 day'",
    # a cast goes by its operand's name, or by its type
    "1::int8", "1::int8::text", "cast(1 as real)", "cast('x' as char(3))",
    "length('x')::int8::text", "cast((select cast(1 as integer)) as text)", "date '2020-01-01'",
    # CASE goes by the name in ELSE, unless that is a type's
    "case when true then 1 end", "case when true then 1 else length('x') end",
    "case when true then 1 else cast(1 as integer) end", "case when true then 1 else 2 ^ 3 end",
    "case when true then 1 else cast(length('x') as bigint) end",
    "case when true then 1 else (select 1 + 1) end", "cast(case when true then 1 end as bigint)",
]  # fmt: skip


@pytest.mark.parametrize("item", ITEMS)
def test_name(postgres_connection: psycopg.Connection, item: str) -> None:
    sql = f"select {item}"
    description = postgres_connection.execute(sql).description
    tree = parse_query(sql, "postgres").copy()
    name_columns(tree, "postgres", sql)
    assert description is not None
    assert tree.selects[0].alias_or_name == description[0].name
