"""Star schemas: the star-schema benchmark (SSB), and aggregates in the manner of TPC-H and TPC-DS
over one fact table.

Dimensions are public and have every key; facts have keys, dates and bounded numbers as attributes.
Some facts have no key. ``planning`` is for the first time, ``answering`` everything but planning,
and ``cells`` the largest number of cells that attributes have together.

    make bench NAME=stars            100,000 records of each table
    ROWS=20000000 make bench NAME=stars
"""

from __future__ import annotations

import datetime as dt
import math
import os
import tempfile
from pathlib import Path
from typing import Any

import duckdb

from bench.measure import clocked, report, target
from tallyveil import Policy, parse_policy
from tallyveil.gate import Gate
from tallyveil.rewriter import Plan

__all__ = ["SSB", "TPC", "fill", "policy", "widest"]

ROWS = int(os.environ.get("ROWS", "100000"))

_DAYS = [dt.date(1992, 1, 1), dt.date(1998, 12, 31)]
_YEAR = [dt.date(1992, 1, 1), dt.date(1992, 12, 31)]

_FACTS: dict[str, dict[str, Any]] = {
    "lineorder": {
        "lo_orderdate": {"range": _DAYS},
        "lo_custkey": {"range": [1, 30_000]},
        "lo_suppkey": {"range": [1, 2_000], "nullable": True},
        "lo_partkey": {"range": [1, 200_000], "other": True},
        "lo_quantity": {"range": [1, 50]},
        "lo_discount": {"range": [0, 10]},
        "lo_extendedprice": {"range": [0, 60_000]},
        "lo_revenue": {"range": [0, 60_000]},
        "lo_supplycost": {"range": [0, 1_000]},
    },
    "lineitem": {
        "l_orderkey": {"range": [1, 150_000]},
        "l_partkey": {"range": [1, 20_000]},
        "l_suppkey": {"range": [1, 1_000], "nullable": True},
        "l_quantity": {"range": [1, 50]},
        "l_extendedprice": {"range": [0, 10_000]},
        "l_discount": {"range": [0, 10]},
        "l_returnflag": {"values": ["R", "A", "N"]},
        "l_linestatus": {"values": ["O", "F"]},
        "l_shipmode": {"values": ["AIR", "MAIL", "RAIL", "SHIP", "TRUCK"]},
        "l_shipdate": {"range": _DAYS},
        "l_commitdate": {"range": _YEAR},
        "l_receiptdate": {"range": _YEAR},
    },
}

_REGIONS = "['AFRICA', 'AMERICA', 'ASIA', 'EUROPE', 'MIDDLE EAST']"
_NATIONS = (
    "['KENYA', 'UNITED STATES', 'CHINA', 'UNITED KINGDOM', 'EGYPT', 'ALGERIA', 'CANADA', "
    "'JAPAN', 'FRANCE', 'IRAN', 'ETHIOPIA', 'PERU', 'INDIA', 'GERMANY', 'IRAQ']"
)
_MONTHS = "['Jan','Feb','Mar','Apr','May','Jun','Jul','Aug','Sep','Oct','Nov','Dec']"


def _place(prefix: str, keys: int) -> str:
    """The dimension of customers or suppliers: city, nation and region of each key."""
    return f"""SELECT i AS {prefix}_{"cust" if prefix == "c" else "supp"}key,
        {_NATIONS}[1 + i % 15] AS {prefix}_nation, {_REGIONS}[1 + i % 5] AS {prefix}_region,
        rpad({_NATIONS}[1 + i % 15], 9, ' ') || (i // 15 % 10) AS {prefix}_city
        FROM range(1, {keys + 1}) r(i)"""


_PUBLIC = {
    "ddate": f"""SELECT CAST(d AS DATE) AS d_datekey, year(d) AS d_year,
        year(d) * 100 + month(d) AS d_yearmonthnum,
        {_MONTHS}[month(d)] || year(d) AS d_yearmonth, week(d) AS d_weeknuminyear
        FROM range(DATE '1992-01-01', DATE '1999-01-01', INTERVAL 1 DAY) r(d)""",
    "customer": _place("c", 30_000),
    "supplier": _place("s", 2_000),
    "part": """SELECT i AS p_partkey, 'MFGR#' || (1 + i % 5) AS p_mfgr,
        'MFGR#' || (1 + i % 5) || (1 + i // 5 % 5) AS p_category,
        'MFGR#' || (1 + i % 5) || (1 + i // 5 % 5) || (1 + i // 25 % 40) AS p_brand1,
        CASE WHEN i % 4 = 0 THEN 'PROMO TIN' ELSE 'SMALL BRASS' END AS p_type
        FROM range(1, 200001) r(i)""",
    "orders": """SELECT i AS o_orderkey, 1 + i * 7 % 30000 AS o_custkey,
        DATE '1992-01-01' + CAST(i % 2400 AS INTEGER) AS o_orderdate,
        ['1-URGENT', '2-HIGH', '3-MEDIUM', '5-LOW'][1 + i % 4] AS o_orderpriority,
        ['BUILDING', 'MACHINERY', 'FURNITURE'][1 + i % 3] AS o_mktsegment
        FROM range(1, 150001) r(i)""",
    "nation": f"""SELECT i AS n_nationkey, {_NATIONS}[i] AS n_name, 1 + (i - 1) % 5 AS n_regionkey
        FROM range(1, 16) r(i)""",
    "region": f"SELECT i AS r_regionkey, {_REGIONS}[i] AS r_name FROM range(1, 6) r(i)",
    "vendor": "SELECT i AS v_suppkey, 1 + i % 15 AS v_nationkey FROM range(1, 1001) r(i)",
}


def _fact(name: str, rows: int) -> str:
    """SQL of a raw fact table. Numbers vary by a hash of the row and the column."""
    items = []
    for number, (column, declared) in enumerate(_FACTS[name].items()):
        drawn = f"hash(i * 31 + {number})"
        if "values" in declared:
            value = f"{declared['values']}[1 + CAST({drawn} % {len(declared['values'])} AS INT)]"
        elif isinstance(declared["range"][0], dt.date):
            first, last = (f"DATE '{end}'" for end in declared["range"])
            value = f"{first} + CAST({drawn} % ({last} - {first} + 1) AS INT)"
        else:
            low, high = declared["range"]
            value = f"{low} + CAST({drawn} % {high - low + 1} AS INT)"
        if declared.get("nullable") or declared.get("other"):
            value = f"CASE WHEN {drawn} % 13 <> 0 THEN {value} END"
        items.append(f"{value} AS {column}")
    return f"SELECT {', '.join(items)} FROM range({rows}) r(i)"


def fill(connection: duckdb.DuckDBPyConnection, rows: int) -> None:
    """Create the dimensions and the raw facts."""
    for name, sql in _PUBLIC.items():
        connection.execute(f"CREATE TABLE {name} AS {sql}")
    for name in _FACTS:
        connection.execute(f"CREATE TABLE {name} AS {_fact(name, rows)}")


def policy(base: Path) -> Policy:
    budget = {"epsilon": 10**6}
    return parse_policy(
        {
            "tables": {
                name: {"from": name, "budget": budget, "attributes": attributes}
                for name, attributes in _FACTS.items()
            },
            "public": {name: {"from": name} for name in _PUBLIC},
        },
        base=base,
    )


SSB = {
    "1.1": """SELECT sum(lo_extendedprice * lo_discount) AS revenue
        FROM lineorder, ddate
        WHERE lo_orderdate = d_datekey AND d_year = 1993
          AND lo_discount BETWEEN 1 AND 3 AND lo_quantity < 25""",
    "1.2": """SELECT sum(lo_extendedprice * lo_discount) AS revenue
        FROM lineorder, ddate
        WHERE lo_orderdate = d_datekey AND d_yearmonthnum = 199401
          AND lo_discount BETWEEN 4 AND 6 AND lo_quantity BETWEEN 26 AND 35""",
    "1.3": """SELECT sum(lo_extendedprice * lo_discount) AS revenue
        FROM lineorder, ddate
        WHERE lo_orderdate = d_datekey AND d_weeknuminyear = 6 AND d_year = 1994
          AND lo_discount BETWEEN 5 AND 7 AND lo_quantity BETWEEN 26 AND 35""",
    "2.1": """SELECT d_year, p_brand1, sum(lo_revenue)
        FROM lineorder, ddate, part, supplier
        WHERE lo_orderdate = d_datekey AND lo_partkey = p_partkey AND lo_suppkey = s_suppkey
          AND p_category = 'MFGR#12' AND s_region = 'AMERICA'
        GROUP BY d_year, p_brand1 ORDER BY d_year, p_brand1""",
    "2.2": """SELECT d_year, p_brand1, sum(lo_revenue)
        FROM lineorder, ddate, part, supplier
        WHERE lo_orderdate = d_datekey AND lo_partkey = p_partkey AND lo_suppkey = s_suppkey
          AND p_brand1 BETWEEN 'MFGR#2221' AND 'MFGR#2228' AND s_region = 'ASIA'
        GROUP BY d_year, p_brand1 ORDER BY d_year, p_brand1""",
    "2.3": """SELECT d_year, p_brand1, sum(lo_revenue)
        FROM lineorder, ddate, part, supplier
        WHERE lo_orderdate = d_datekey AND lo_partkey = p_partkey AND lo_suppkey = s_suppkey
          AND p_brand1 = 'MFGR#2221' AND s_region = 'EUROPE'
        GROUP BY d_year, p_brand1 ORDER BY d_year, p_brand1""",
    "3.1": """SELECT c_nation, s_nation, d_year, sum(lo_revenue) AS revenue
        FROM customer, lineorder, supplier, ddate
        WHERE lo_custkey = c_custkey AND lo_suppkey = s_suppkey AND lo_orderdate = d_datekey
          AND c_region = 'ASIA' AND s_region = 'ASIA' AND d_year >= 1992 AND d_year <= 1997
        GROUP BY c_nation, s_nation, d_year ORDER BY d_year ASC, revenue DESC""",
    "3.2": """SELECT c_city, s_city, d_year, sum(lo_revenue) AS revenue
        FROM customer, lineorder, supplier, ddate
        WHERE lo_custkey = c_custkey AND lo_suppkey = s_suppkey AND lo_orderdate = d_datekey
          AND c_nation = 'UNITED STATES' AND s_nation = 'UNITED STATES'
          AND d_year >= 1992 AND d_year <= 1997
        GROUP BY c_city, s_city, d_year ORDER BY d_year ASC, revenue DESC""",
    "3.3": """SELECT c_city, s_city, d_year, sum(lo_revenue) AS revenue
        FROM customer, lineorder, supplier, ddate
        WHERE lo_custkey = c_custkey AND lo_suppkey = s_suppkey AND lo_orderdate = d_datekey
          AND (c_city = 'UNITED KI1' OR c_city = 'UNITED KI5')
          AND (s_city = 'UNITED KI1' OR s_city = 'UNITED KI5')
          AND d_year >= 1992 AND d_year <= 1997
        GROUP BY c_city, s_city, d_year ORDER BY d_year ASC, revenue DESC""",
    "3.4": """SELECT c_city, s_city, d_year, sum(lo_revenue) AS revenue
        FROM customer, lineorder, supplier, ddate
        WHERE lo_custkey = c_custkey AND lo_suppkey = s_suppkey AND lo_orderdate = d_datekey
          AND (c_city = 'UNITED KI1' OR c_city = 'UNITED KI5')
          AND (s_city = 'UNITED KI1' OR s_city = 'UNITED KI5') AND d_yearmonth = 'Dec1997'
        GROUP BY c_city, s_city, d_year ORDER BY d_year ASC, revenue DESC""",
    "4.1": """SELECT d_year, c_nation, sum(lo_revenue - lo_supplycost) AS profit
        FROM ddate, customer, supplier, part, lineorder
        WHERE lo_custkey = c_custkey AND lo_suppkey = s_suppkey AND lo_partkey = p_partkey
          AND lo_orderdate = d_datekey AND c_region = 'AMERICA' AND s_region = 'AMERICA'
          AND (p_mfgr = 'MFGR#1' OR p_mfgr = 'MFGR#2')
        GROUP BY d_year, c_nation ORDER BY d_year, c_nation""",
    "4.2": """SELECT d_year, s_nation, p_category, sum(lo_revenue - lo_supplycost) AS profit
        FROM ddate, customer, supplier, part, lineorder
        WHERE lo_custkey = c_custkey AND lo_suppkey = s_suppkey AND lo_partkey = p_partkey
          AND lo_orderdate = d_datekey AND c_region = 'AMERICA' AND s_region = 'AMERICA'
          AND (d_year = 1997 OR d_year = 1998) AND (p_mfgr = 'MFGR#1' OR p_mfgr = 'MFGR#2')
        GROUP BY d_year, s_nation, p_category ORDER BY d_year, s_nation, p_category""",
    "4.3": """SELECT d_year, s_city, p_brand1, sum(lo_revenue - lo_supplycost) AS profit
        FROM ddate, customer, supplier, part, lineorder
        WHERE lo_custkey = c_custkey AND lo_suppkey = s_suppkey AND lo_partkey = p_partkey
          AND lo_orderdate = d_datekey AND c_region = 'AMERICA' AND s_nation = 'UNITED STATES'
          AND (d_year = 1997 OR d_year = 1998) AND p_category = 'MFGR#14'
        GROUP BY d_year, s_city, p_brand1 ORDER BY d_year, s_city, p_brand1""",
}
"""The 13 queries of the benchmark."""

TPC = {
    "H 1": """SELECT l_returnflag, l_linestatus, sum(l_quantity) AS sum_qty,
          sum(l_extendedprice) AS sum_base_price,
          sum(l_extendedprice * (100 - l_discount)) AS sum_disc_price,
          avg(l_quantity) AS avg_qty, avg(l_discount) AS avg_disc, count(*) AS count_order
        FROM lineitem WHERE l_shipdate <= DATE '1998-09-02'
        GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus""",
    "H 3": """SELECT o_orderpriority, extract(year FROM o_orderdate) AS y,
          sum(l_extendedprice * (100 - l_discount)) AS revenue
        FROM lineitem JOIN orders ON l_orderkey = o_orderkey
        WHERE o_mktsegment = 'BUILDING' AND o_orderdate < DATE '1995-03-15'
          AND l_shipdate > DATE '1995-03-15'
        GROUP BY 1, 2 ORDER BY revenue DESC, y LIMIT 10""",
    "H 5": """SELECT n_name, sum(l_extendedprice * (100 - l_discount)) AS revenue
        FROM lineitem
          JOIN orders ON o_orderkey = l_orderkey
          JOIN vendor ON v_suppkey = l_suppkey
          JOIN nation ON n_nationkey = v_nationkey
          JOIN region ON r_regionkey = n_regionkey AND r_name = 'ASIA'
        WHERE o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1995-01-01'
        GROUP BY n_name ORDER BY revenue DESC""",
    "H 6": """SELECT sum(l_extendedprice * l_discount) AS revenue FROM lineitem
        WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01'
          AND l_discount BETWEEN 5 AND 7 AND l_quantity < 24""",
    "H 12": """SELECT l_shipmode,
          sum(CASE WHEN o_orderpriority IN ('1-URGENT', '2-HIGH') THEN 1 ELSE 0 END) AS high,
          sum(CASE WHEN o_orderpriority NOT IN ('1-URGENT', '2-HIGH') THEN 1 ELSE 0 END) AS low
        FROM orders JOIN lineitem ON o_orderkey = l_orderkey
        WHERE l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate
        GROUP BY l_shipmode ORDER BY l_shipmode""",
    "H 14": """SELECT 100.00 * sum(CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice ELSE 0 END)
          / sum(l_extendedprice) AS promo_revenue
        FROM lineitem, part
        WHERE l_partkey = p_partkey AND l_shipdate >= DATE '1995-09-01'""",
    "DS 3": """SELECT d.d_year, p.p_brand1, count(*) AS n, sum(l_extendedprice) AS agg
        FROM ddate d JOIN lineitem ON d.d_datekey = l_shipdate JOIN part p ON l_partkey = p_partkey
        WHERE p.p_mfgr = 'MFGR#1' AND d.d_yearmonth LIKE 'Nov%'
        GROUP BY d.d_year, p.p_brand1 ORDER BY d.d_year, agg DESC""",
    "DS 7": """SELECT p_category, avg(l_quantity) AS a, avg(l_extendedprice) AS b, count(*) AS n
        FROM lineitem JOIN part ON l_partkey = p_partkey JOIN ddate ON l_shipdate = d_datekey
          LEFT JOIN vendor ON v_suppkey = l_suppkey LEFT JOIN nation ON n_nationkey = v_nationkey
        WHERE d_year = 1995 AND (n_name = 'JAPAN' OR n_name IS NULL)
        GROUP BY p_category ORDER BY p_category""",
    "DS 43": """SELECT n_name,
          sum(CASE WHEN d_weeknuminyear < 27 THEN l_quantity END) AS spring,
          sum(CASE WHEN d_weeknuminyear >= 27 THEN l_quantity END) AS autumn, count(*) AS n
        FROM lineitem JOIN ddate ON d_datekey = l_shipdate
          JOIN vendor ON v_suppkey = l_suppkey JOIN nation ON n_nationkey = v_nationkey
        WHERE d_year IN (1996, 1997) GROUP BY n_name ORDER BY n_name""",
}
"""In the manner of TPC-H and TPC-DS."""


def widest(plan: Plan) -> int:
    """The largest number of cells of a factor."""
    columns = [column for workload in plan.workloads.values() for column in workload.columns]
    return max(math.prod(factor.shape) for column in columns for factor in column.factors)


def main() -> None:
    with tempfile.TemporaryDirectory() as directory, duckdb.connect() as source:
        fill(source, ROWS)
        gate = Gate(policy(Path(directory)), source)
        session = gate.session("alice", "db", "postgres")
        slowest = 0.0
        for name, sql in {**SSB, **TPC}.items():
            times: list[float] = []
            (statement,) = session.parse(sql)
            if statement.query is None:
                raise ValueError(f"{name} is no query")
            plan = clocked(times, session._planner.plan, statement.query)
            clocked(times, session.execute, statement)
            planning, answering = (round(time, 1) for time in times)
            report(query=name, planning_ms=planning, answering_ms=answering, cells=widest(plan))
            slowest = max(slowest, planning)
        target("slowest planning, ms", slowest, most=500)
        session.close()
        gate.close()


if __name__ == "__main__":
    main()
