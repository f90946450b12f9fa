"""Split text into statements, limit their size, and parse them with positions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import sqlglot
from sqlglot import exp
from sqlglot.dialects import DuckDB, Postgres
from sqlglot.errors import ParseError, TokenError
from sqlglot.optimizer.normalize_identifiers import normalize_identifiers
from sqlglot.tokenizer_core import Token, TokenType
from sqlglot.tokens import Tokenizer

from tallyveil import deadline
from tallyveil.cache import OBJECT, Cache
from tallyveil.errors import (
    FeatureNotSupported,
    InvalidEncoding,
    SQLSyntaxError,
    StatementError,
    StatementTooComplex,
)
from tallyveil.rewriter.postgres.known_functions import refuse_other_functions, refuse_other_numbers
from tallyveil.rewriter.sql.check import check
from tallyveil.rewriter.sql.duckdb_parser import DuckDBParser
from tallyveil.rewriter.sql.nodes import all_nodes, unlink
from tallyveil.rewriter.sql.pivot import read_pivot
from tallyveil.rewriter.sql.postgres_parser import PostgresParser, calls
from tallyveil.rewriter.sql.second_parser import (
    PARSER_FAILURES,
    SecondParser,
    disagreement,
    string_at,
)
from tallyveil.rewriter.sql.short_forms import (
    balance,
    select_functions,
    spell_out_rows,
    spell_out_values,
    write_out,
)
from tallyveil.rewriter.sql.tokens import read_intervals, refuse_retries

__all__ = ["QUERY_WORDS", "Dialect", "Piece", "parse_query", "split"]

Dialect: TypeAlias = Literal["postgres", "duckdb"]

_DIALECTS: Final = {"postgres": Postgres(), "duckdb": DuckDB()}


def _tokenizer(words: type[Tokenizer], **settings: Any) -> type[Tokenizer]:
    """A tokenizer without commands: it reads EXPLAIN, SHOW and their like word by word."""
    return type("Words", (words,), {"COMMANDS": set(), **settings})


def _without_dollars(words: type[Tokenizer]) -> type[Tokenizer]:
    """sqlglot would read `$1,$` as the beginning of a string."""
    single = {**words.SINGLE_TOKENS, "$": TokenType.PARAMETER}
    return _tokenizer(words, HEREDOC_STRINGS=[], SINGLE_TOKENS=single)


# The start of a string between dollars, perhaps with a tag. In a text without any, every dollar
# begins a parameter.
_DOLLARS: Final = re.compile(r"\$(?:[^\W\d]\w*)?\$")
_TOKENIZERS: Final = {name: _tokenizer(d.tokenizer_class) for name, d in _DIALECTS.items()}
_WITHOUT_DOLLARS: Final = {
    name: _without_dollars(d.tokenizer_class) for name, d in _DIALECTS.items()
}
_SECOND: Final[dict[str, SecondParser]] = {"postgres": PostgresParser(), "duckdb": DuckDBParser()}
_TYPES: Final = {"postgres": Postgres.Parser.TYPE_TOKENS, "duckdb": DuckDB.Parser.TYPE_TOKENS}

QUERY_WORDS: Final = frozenset({"SELECT", "WITH", "FROM", "TABLE", "VALUES", "PIVOT", "("})

# The tokens of parameters without a number: ? and ?::
_MARKS: Final = frozenset({TokenType.PLACEHOLDER, TokenType.QDCOLON})

MAX_CHARACTERS: Final = 200_000
MAX_TOKENS: Final = 20_000


@dataclass(frozen=True)
class Piece:
    """One statement's text, its tokens and where it starts in the whole text."""

    sql: str
    tokens: tuple[Token, ...]
    offset: int

    @property
    def as_written(self) -> bool:
        """Whether the tokens are those of `sql`, at their positions in it."""
        return bool(self.tokens) and self.offset == 0 and not self.numbered

    @property
    def numbered(self) -> bool:
        """Whether `sql` has numbered parameters where its tokens have ?."""
        return any(token.token_type in _MARKS for token in self.tokens)

    @property
    def words(self) -> tuple[str, ...]:
        """The tokens' text in upper case, for statements that begin with a command word."""
        return tuple(token.text.upper() for token in self.tokens)


def split(sql: str, dialect: Dialect) -> tuple[Piece, ...]:
    """The statements of a text; empty ones are left out.

    Raises:
        StatementTooComplex: the text is longer than MAX_CHARACTERS or MAX_TOKENS, or would be
            read in more than MAX_WORK steps.
        SQLSyntaxError: a string or comment does not end.
        InvalidEncoding: the text contains a NUL.
        InvalidDatetimeFormat: the text after INTERVAL is not an interval.
    """
    if len(sql) > MAX_CHARACTERS:
        raise StatementTooComplex(
            f"the statement has {len(sql)} characters; the limit is {MAX_CHARACTERS}"
        )
    if "\0" in sql:
        raise InvalidEncoding(
            "the statement contains a NUL character", position=sql.index("\0") + 1
        )
    try:
        tokens = _tokens(sql, dialect)
    except TokenError as error:
        raise SQLSyntaxError(
            # Probably the quote that is still open at the end.
            "a string, identifier or comment is not terminated",
            position=max(0, *(sql.rfind(quote) for quote in ("'", '"', "/*", "$"))) + 1,
        ) from error
    deadline.check()
    if len(tokens) > MAX_TOKENS:
        raise StatementTooComplex(
            f"the statement has {len(tokens)} words and signs; the limit is {MAX_TOKENS}"
        )
    refuse_retries(tokens, _TYPES[dialect])
    pieces: list[Piece] = []
    start: list[Token] = []
    for token in [*tokens, None]:
        if token is not None and token.token_type is not TokenType.SEMICOLON:
            start.append(token)
        elif start:
            first, last = start[0].start, start[-1].end
            text = _numbered(sql[first : last + 1], start)
            pieces.append(Piece(text, tuple(start), first))
            start = []
    return tuple(pieces)


def _tokens(sql: str, dialect: Dialect) -> list[Token]:
    words = _TOKENIZERS if _DOLLARS.search(sql) else _WITHOUT_DOLLARS
    tokens: list[Token] = words[dialect](dialect=_DIALECTS[dialect]).tokenize(sql)
    return read_intervals(sql, tokens)


def _numbered(text: str, tokens: list[Token]) -> str:
    """Replace DuckDB's ``?`` parameters by ``$1``, ``$2``, … in their order."""
    marks = [token for token in tokens if token.token_type in _MARKS]
    for number in range(len(marks), 0, -1):
        at = marks[number - 1].start - tokens[0].start
        text = f"{text[:at]}${number}{text[at + 1 :]}"
    return text


def parse_query(sql: str, dialect: Dialect, piece: Piece | None = None) -> exp.Expr:
    """The syntax tree of one query, whose ``piece`` this is. It is shared and
    without links to parents: copy it to change it, or to follow them.

    Raises:
        SQLSyntaxError: with the position of the first mistake.
        StatementTooComplex: nested too deeply.
        FeatureNotSupported: not a query.
    """
    return _TREES.get((dialect, sql), lambda: _parse(sql, dialect, piece))


def _parse(sql: str, dialect: Dialect, piece: Piece | None) -> exp.Expr:
    pieces = split(sql, dialect) if piece is None or not piece.as_written else (piece,)
    tokens = [token for one in pieces for token in one.tokens]
    # The first word decides: the parser does not read commands, and logs them.
    if not tokens:
        raise SQLSyntaxError("syntax error at end of input", position=len(sql) + 1)
    if tokens[0].text.upper() not in QUERY_WORDS:
        raise _no_query(tokens[0].text, tokens[0].start + 1)
    if len(pieces) > 1:
        raise SQLSyntaxError("expected one statement", position=1)
    stand_in = _of_pivot(sql, tokens) if dialect == "duckdb" else None
    if stand_in is not None:
        return stand_in
    second = _SECOND[dialect]
    read = second.parse(sql)
    called = calls(read, sql) if dialect == "postgres" else ()
    refuse_other_numbers(called)
    deadline.check()
    tree = _read(sql, dialect, tokens)
    deadline.check()
    for node in all_nodes(tree, exp.Expr):
        if isinstance(node, exp.ByteString):
            node.replace(_escaped(node, sql, string_at(second, read, sql, node.meta["start"])))
        _place(node, sql)
        if dialect == "duckdb" and isinstance(node, exp.Count) and not any(node.iter_expressions()):
            node.set("this", exp.Star())  # DuckDB's count()
    if not isinstance(tree, exp.Query | exp.Values):
        raise _no_query(sql.split(None, 1)[0], 1)
    deadline.check()
    refuse_other_functions(tree, called)
    refused = disagreement(second, sql, read, tree)
    if refused is not None:
        copy = normalize_identifiers(tree.copy(), dialect=dialect)
        write_out(copy)
        check(copy)  # which says better what is not supported
        raise refused
    tree = spell_out_values(tree, dialect)
    if dialect == "postgres":
        spell_out_rows(tree)
        select_functions(tree)
    balance(tree)
    deadline.check()
    unlink([tree])  # a copy has links of its own
    return tree


def _read(sql: str, dialect: Dialect, tokens: list[Token]) -> exp.Expr:
    """The tree as sqlglot reads it."""
    try:
        parser = _DIALECTS[dialect].parser(error_level=sqlglot.ErrorLevel.IMMEDIATE)
        trees = parser.parse(tokens, sql)
    except ParseError as error:
        raise _unread(sql, dialect, error) from error
    except RecursionError as error:
        raise StatementTooComplex("the statement is nested too deeply") from error
    except PARSER_FAILURES as error:
        raise FeatureNotSupported("the statement is not supported in this form") from error
    tree: exp.Expr | None = trees[0] if len(trees) == 1 else None
    if tree is None:
        raise SQLSyntaxError("expected one statement", position=1)
    return tree


def _place(node: exp.Expr, sql: str) -> None:
    """Note where the node stands in the text, and a function's name as it is written there."""
    start, end = node.meta_get("start"), node.meta_get("end")
    if start is None:
        return
    node._meta = _Place(start=start, end=end)
    # The parser has one class for several functions, and adds IGNORE NULLS to any_value.
    added = isinstance(node, exp.IgnoreNulls) and isinstance(node.this, exp.AnyValue)
    function = node.this if added else node
    if isinstance(function, exp.Func):
        function._meta = _Place(start=start, end=end, written=sql[start : end + 1].lower())


def _of_pivot(sql: str, tokens: list[Token]) -> exp.Expr | None:
    """The tree that stands for a PIVOT until its keys are known; None for another statement."""
    if not any(token.token_type is TokenType.PIVOT for token in tokens):
        return None
    pivot = read_pivot(sql, tokens)
    if pivot is None:
        return None
    stand_in = parse_query(pivot.stand_in, "duckdb").copy()
    stand_in.set("kind", "PIVOT")  # which `check` refuses: it is not to be answered
    unlink([stand_in])
    return stand_in


class _Place(dict[str, Any]):
    """A node's position, and later notes on it. Copying a node copies this quickly, as its values
    are numbers and words."""

    def __deepcopy__(self, memo: object) -> _Place:
        return _Place(self)


def _escaped(node: exp.ByteString, sql: str, text: str | None) -> exp.Literal:
    """Return E'…' as a plain string, of the text that the second parser reads.

    Raises FeatureNotSupported for other kinds of strings."""
    start, end = node.meta["start"], node.meta["end"]
    if sql[start] not in "eE" or text is None:
        raise FeatureNotSupported(
            "this kind of string is not answered",
            hint="Write it in plain quotes.",
            position=start + 1,
        )
    literal = exp.Literal.string(text)
    literal.meta["start"], literal.meta["end"] = start, end
    return literal


# A tree has up to 0.6 objects for each character of its statement. The last large one is cached
# whatever its size, since one statement asks for its tree several times.
_ROOM: Final = 1 << 26
_TREES: Final[Cache[exp.Expr]] = Cache(
    512, _ROOM, lambda key, _: min(_ROOM, OBJECT * len(str(key)) * 6 // 10)
)


def _no_query(word: str, position: int) -> FeatureNotSupported:
    return FeatureNotSupported(
        f"{word.upper()} is not answered: analysts can only send queries",
        hint="Ask a SELECT with COUNT, SUM or AVG over a protected table.",
        position=position,
    )


def _unread(sql: str, dialect: Dialect, error: ParseError) -> StatementError:
    """What sqlglot does not read and the second parser does, where sqlglot stops."""
    first = error.errors[0] if error.errors else {}
    line, column = first.get("line") or 1, first.get("col") or 1
    found = first.get("highlight") or ""
    end = sum(len(text) + 1 for text in sql.split("\n")[: line - 1]) + column
    position = max(1, min(end - max(len(found), 1) + 1, len(sql)))
    return FeatureNotSupported(
        f'the syntax at or near "{found[:40]}" is not supported',
        hint=_bracket_hint(sql, dialect, position),
        position=position,
    )


def _bracket_hint(sql: str, dialect: Dialect, position: int) -> str | None:
    """A hint for valid SQL that the parser does not read: CUBE (a IS NULL)."""
    opened: list[str] = []
    before = ""
    for token in split(sql, dialect)[0].tokens:
        if token.start >= position - 1:
            break
        if token.text == "(":
            opened.append(before)
        elif token.text == ")" and opened:
            opened.pop()
        before = token.text.upper()
    if not opened or opened[-1] not in ("CUBE", "ROLLUP", "SETS", "GROUPING SETS"):
        return None
    return f"Put brackets around any but plain names and functions: {opened[-1]} ((a IS NULL), b)."
