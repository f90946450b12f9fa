"""Decide, on its syntax tree, whether a statement is a question about the catalogs.

It is one if it is a query, or explains or copies one, and either every table that it names belongs
to a catalog, or it names no table and calls a function that only catalogs have. All other
statements go to the gate, which refuses what it does not understand. A mistake here leads to a
refusal, not to a wrong answer (see `relay`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final

import sqlglot
from sqlglot import exp
from sqlglot.dialects import Postgres
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from tallyveil.cache import Cache
from tallyveil.rewriter import Piece

__all__ = ["Routing"]

_SWITCHES: Final = frozenset({"ANALYZE", "ANALYSE", "VERBOSE"})

_SCHEMAS: Final = frozenset({"pg_catalog", "information_schema"})

_QUERIES: Final = frozenset({"SELECT", "WITH", "VALUES", "TABLE", "("})

# Functions and types that the gate lacks, and that reveal only what the catalogs hold.
_CATALOGS_OWN: Final = re.compile(
    r"pg_\w+|information_schema|reg(?:class|type|proc(?:edure)?|oper(?:ator)?|namespace|role|"
    r"config|dictionary|collation)|has_\w+_privilege|(?:obj|col|shobj)_description|format_type|"
    r"to_reg\w+|current_schemas|row_security_active|inet_(?:client|server)_(?:addr|port)|"
    r"txid_\w+|generate_series|array_(?:to_string|upper|lower|length|ndims|dims)|quote_(?:ident|literal|nullable)",
    re.IGNORECASE,
)
# Each of the names above contains one of these. Searching for them takes a tenth of the time.
_PARTS: Final = (
    "pg_", "information_schema", "reg", "_privilege", "_description", "format_type",
    "current_schemas", "row_security", "inet_", "txid_", "array_", "quote_", "generate_series",
)  # fmt: skip
_SESSIONS_OWN: Final = frozenset(
    {"pg_backend_pid", "pg_is_in_recovery", "pg_advisory_unlock_all"}
)  # which the gate answers

_WORDS: Final = frozenset({TokenType.VAR, TokenType.IDENTIFIER})

_DIALECT: Final = Postgres()

# The parser raises some of these for malformed texts instead of its own error.
_FAILURES: Final = (
    SqlglotError, RecursionError, TypeError, AttributeError, IndexError, KeyError, ValueError,
)  # fmt: skip


class Routing:
    """Finds statements about the catalogs. ``names`` are the policy's tables and views."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = frozenset(names)
        self._kept: Cache[list[bool]] = Cache(1024, 1 << 23, lambda key, _: 2 * len(str(key)))

    def takes(self, piece: Piece) -> bool:
        """Whether the statement is a question about the catalogs."""
        sql = piece.sql.lower()
        if not any(part in sql for part in _PARTS):
            return False
        return self._kept.get(piece.sql, lambda: [self._decide(piece.tokens, piece.sql)])[0]

    def _decide(self, tokens: Sequence[Token], sql: str) -> bool:
        tokens = _query_of_copy(tokens) or _query_of_explain(tokens) or tokens
        if not any(map(_names_catalog, tokens)) or tokens[0].text.upper() not in _QUERIES:
            return False
        try:
            parser = _DIALECT.parser(error_level=sqlglot.ErrorLevel.IMMEDIATE)
            trees = parser.parse(list(tokens), sql)
        except _FAILURES:
            return self._decide_unparsed(tokens)
        tree = trees[0]
        if len(trees) != 1 or not isinstance(tree, (exp.Query, exp.Values)):
            return False
        if any(map(_belongs_to_gate, tree.find_all(exp.Func))):
            return False
        return all(map(self._is_catalog, _tables(tree)))

    def _is_catalog(self, table: exp.Table) -> bool:
        schema, name = table.db.lower(), table.name.lower()
        if schema:
            return schema in _SCHEMAS
        return name.startswith("pg_") and name not in self._names

    def _decide_unparsed(self, tokens: Sequence[Token]) -> bool:
        """Decide on the tokens, for a statement that names a catalog but does not parse. Returns
        False if it names a table of the policy, or has names with Unicode escapes, which are
        unreadable here."""
        words = {token.text.lower() for token in tokens if token.token_type in _WORDS}
        return not (words & self._names) and "u" not in words


def _names_catalog(token: Token) -> bool:
    word = token.text.lower()
    return (
        token.token_type is not TokenType.STRING
        and _CATALOGS_OWN.fullmatch(word) is not None
        and word not in _SESSIONS_OWN
    )


def _tables(tree: exp.Expr) -> Iterator[exp.Table]:
    """The tables that the query reads, without table functions and its own common tables."""
    defined = {cte.alias for cte in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        function = isinstance(table.this, exp.Func)
        if not function and (table.db or table.name not in defined):
            yield table


def _belongs_to_gate(function: exp.Func) -> bool:
    """Whether only the gate can answer the function: dp_ functions, and set_config except where
    pgAdmin sets bytea_output to what it is."""
    if not isinstance(function, exp.Anonymous):
        return False
    name = function.name.lower()
    if name == "set_config":
        given = [a.this if isinstance(a, exp.Literal) else None for a in function.expressions[:2]]
        return given != ["bytea_output", "hex"]
    return name.startswith("dp_")


def _query_of_copy(tokens: Sequence[Token]) -> Sequence[Token] | None:
    """The tokens of the query in COPY (query) TO STDOUT, or None for another statement."""
    if tokens[0].text.upper() != "COPY" or (end := _closing_parenthesis(tokens, 1)) is None:
        return None
    to = [token.text.upper() for token in tokens[end + 1 : end + 3]]
    return tokens[2:end] if to == ["TO", "STDOUT"] else None


def _query_of_explain(tokens: Sequence[Token]) -> Sequence[Token] | None:
    """The tokens of the query in EXPLAIN, after its options, or None for another statement."""
    if tokens[0].text.upper() != "EXPLAIN":
        return None
    start, end = 1, _closing_parenthesis(tokens, 1)
    if end is not None and tokens[2].text.upper() not in _QUERIES:
        start = end + 1
    while start < len(tokens) and tokens[start].text.upper() in _SWITCHES:
        start += 1
    return tokens[start:] or None


def _closing_parenthesis(tokens: Sequence[Token], start: int) -> int | None:
    """The index of the token that closes the parenthesis at ``start``, or None if there is none."""
    if len(tokens) <= start or tokens[start].text != "(":
        return None
    depth = 0
    for number, token in enumerate(tokens[start:], start):
        depth += (token.text == "(") - (token.text == ")")
        if not depth:
            return number
    return None
