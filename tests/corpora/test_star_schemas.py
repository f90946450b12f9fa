"""Star schemas with dimensions of full size: what is answered over the wire is what DuckDB answers
on the raw rows, and no two dimensions' keys are combined.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any, NamedTuple

import duckdb
import psycopg
import pytest

from bench import stars
from tallyveil.proxy import Server, ServerThread
from tests.corpora.compare import same_rows
from tests.corpora.house import House, Silent, silent

QUERIES = {**stars.SSB, **stars.TPC}

# What a statement multiplies or compares is combined; no key is.
COMBINED = {
    ("lo_discount", "lo_extendedprice"), ("l_extendedprice", "l_discount"),
    ("l_commitdate", "l_receiptdate"),
}  # fmt: skip


class Star(NamedTuple):
    raw: duckdb.DuckDBPyConnection
    house: House
    wire: psycopg.Connection[Any]


@pytest.fixture(scope="module")
def star(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Star]:
    with ExitStack() as stack:
        raw = stack.enter_context(duckdb.connect())
        stars.fill(raw, 5_000)
        stack.enter_context(silent())
        house = stack.enter_context(
            closing(House(stars.policy(tmp_path_factory.mktemp("star")), raw))
        )
        server = ServerThread(Server(house.gate.session, port=0))
        server.start()
        stack.callback(server.close)
        wire = psycopg.connect(
            f"postgresql://alice@127.0.0.1:{server.port}/db",
            autocommit=True,
            options=f"-cdp.mechanism={Silent.name}",
        )
        yield Star(raw, house, stack.enter_context(wire))


@pytest.mark.parametrize("name", QUERIES)
def test_a_star_query_is_answered_as_the_raw_rows_do(star: Star, name: str) -> None:
    sql = QUERIES[name]
    ours, theirs = star.wire.execute(sql.encode()).fetchall(), star.raw.execute(sql).fetchall()
    # A group without a record is 0, and SQL has no such group.
    ours, theirs = ([row for row in rows if row[-1]] for rows in (ours, theirs))
    assert same_rows(ours, theirs, ordered=False)
    session = star.house.sessions["postgres"]
    (statement,) = session.parse(sql)
    assert statement.query is not None
    plan = session._planner.plan(statement.query)
    columns = [column for workload in plan.workloads.values() for column in workload.columns]
    factors = [factor.axes for column in columns for factor in column.factors]
    assert {axes for axes in factors if len(axes) > 1} <= COMBINED


def test_the_records_without_a_key_are_dropped_or_kept_as_the_join_says(star: Star) -> None:
    for sql in (
        "SELECT count(*) FROM lineorder JOIN supplier ON lo_suppkey = s_suppkey",
        "SELECT s_region, count(*) FROM lineorder LEFT JOIN supplier ON lo_suppkey = s_suppkey "
        "LEFT JOIN part ON lo_partkey = p_partkey WHERE p_mfgr IS NULL GROUP BY s_region",
        "SELECT s_region, count(lo_orderdate) FROM supplier LEFT JOIN lineorder "
        "ON lo_suppkey = s_suppkey AND lo_discount = 3 AND lo_orderdate < '1994-01-01' "
        "GROUP BY s_region",
    ):
        ours = star.wire.execute(sql.encode()).fetchall()
        assert same_rows(ours, star.raw.execute(sql).fetchall(), ordered=False)


def test_a_condition_on_two_dimensions_combines_their_keys(star: Star) -> None:
    sql = """SELECT count(*) FROM lineorder, customer, supplier WHERE lo_custkey = c_custkey
        AND lo_suppkey = s_suppkey AND c_city = s_city"""
    with pytest.raises(psycopg.Error, match="combines 60030000 cells") as caught:
        star.wire.execute(sql.encode())
    assert "lo_custkey (30000) × lo_suppkey (2001)" in (caught.value.diag.message_detail or "")
