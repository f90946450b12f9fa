"""PostgreSQL's meaning in DuckDB's words: each construct is translated exactly, or refused.

A rule stands in the file of what it is about and takes a node with the statement's `Scope`. It
returns what stands for the node in DuckDB, or None where both mean the same, or raises.
"""

from tallyveil.rewriter.postgres.rules import translate

__all__ = ["translate"]
