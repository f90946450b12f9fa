"""SQL to workloads: a statement is parsed, checked, split and made a matrix over the domain.

The rewriter reads public facts only (the policy's domains, the statement) and charges nothing. It
computes linear coefficients by evaluating the analyst's own SQL on the domain relation in DuckDB,
so every expression has DuckDB's exact meaning. Statements that it cannot analyse are refused.
"""

from tallyveil.rewriter.engine.public_cursor import PublicCursor
from tallyveil.rewriter.engine.public_database import PublicDatabase, relation_name
from tallyveil.rewriter.inner_answers import InnerAnswer, constant, inner_answer, query_of
from tallyveil.rewriter.query_plan import (
    Caution,
    Claim,
    Item,
    NoisyTable,
    Output,
    Plan,
    Projection,
    StatisticOutput,
)
from tallyveil.rewriter.resolve.catalog_names import Absent
from tallyveil.rewriter.rewrite import Rewriter
from tallyveil.rewriter.sql.named_parameters import by_number
from tallyveil.rewriter.sql.parameters import duckdb_name, types_of
from tallyveil.rewriter.sql.pivot import Pivot, depends_on_noise, read_pivot
from tallyveil.rewriter.sql.query import Query, first_named, read_query
from tallyveil.rewriter.sql.statement_text import QUERY_WORDS, Dialect, Piece, parse_query, split
from tallyveil.rewriter.sql.time_zones import by_name as zone_by_name
from tallyveil.rewriter.sql.time_zones import local_now
from tallyveil.workload.workload import Column, Workload

__all__ = [
    "QUERY_WORDS", "Absent", "Caution", "Claim", "Column", "Dialect", "InnerAnswer", "Item",
    "NoisyTable", "Output", "Piece", "Pivot", "Plan", "Projection", "PublicCursor",
    "PublicDatabase", "Query", "Rewriter", "StatisticOutput", "Workload", "by_number", "constant",
    "depends_on_noise", "duckdb_name", "first_named", "inner_answer", "local_now", "parse_query",
    "query_of", "read_pivot", "read_query", "relation_name", "split", "types_of", "zone_by_name",
]  # fmt: skip
