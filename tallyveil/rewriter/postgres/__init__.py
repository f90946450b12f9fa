"""Translation from PostgreSQL's SQL to DuckDB's: each construct is translated exactly, or refused.

Each file has the rules of one topic. A rule takes a node and the statement's `Bound`. It returns
the node's replacement for DuckDB, or None to keep the node, or raises.
"""

from tallyveil.rewriter.postgres.rules import translate

__all__ = ["translate"]
