"""Reads the tokens of a statement one after the other, to its end."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from string import ascii_lowercase, ascii_uppercase
from typing import Final, TypeVar

from sqlglot.tokenizer_core import Token, TokenType

from tallyveil.errors import SQLSyntaxError, positions_from
from tallyveil.gate.interface import Aside, Statement, StatementKind
from tallyveil.gate.settings.values import cut
from tallyveil.rewriter import Dialect, Piece, Query, read_query

__all__ = ["TokenReader", "as_statement", "set_aside"]

T = TypeVar("T")

_FOLDED: Final = str.maketrans(ascii_uppercase, ascii_lowercase)
_WORD: Final = re.compile(r"[^\W\d][\w$]*")
_NUMBER: Final = re.compile(r"[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?")
_ESCAPED: Final = re.compile(r"(?:[^\\]|\\[bfnrt'\\])*", re.DOTALL)
_STRINGS: Final = frozenset({TokenType.STRING, TokenType.HEREDOC_STRING})
_QUOTED: Final = frozenset(
    {
        *_STRINGS,
        TokenType.IDENTIFIER,
        TokenType.NATIONAL_STRING,
        TokenType.BYTE_STRING,
        TokenType.BIT_STRING,
        TokenType.HEX_STRING,
        TokenType.UNICODE_STRING,
        TokenType.RAW_STRING,
    }
)


def as_statement(query: Query) -> Statement:
    return Statement(
        query.sql, "select", "SELECT", query.parameters, query=query, offset=query.offset
    )


def set_aside(piece: Piece) -> Statement:
    """A statement that is parsed and answered elsewhere."""
    words = piece.words
    numbers = (int(n) for sign, n in pairwise(words) if sign == "$" and n.isdecimal())
    return Statement(piece.sql, "catalog", words[0], max(numbers, default=0), offset=piece.offset)


class TokenReader:
    """Reads the tokens of a piece in order; ``first`` is its first word. ``usage`` is what errors
    recommend to write, and ``aside`` takes queries that are not parsed."""

    def __init__(self, piece: Piece, dialect: Dialect, aside: Aside) -> None:
        self.piece = piece
        self.dialect = dialect
        self.first = piece.words[0]
        self.usage = self.first
        self._aside = aside
        self._at = 0

    def statement(self, kind: StatementKind, tag: str, target: str | None = None) -> Statement:
        """The statement, which ends here."""
        if not self.ended():
            raise self.error()
        return Statement(self.piece.sql, kind, tag, target=target, offset=self.piece.offset)

    def query(self, inner: Piece) -> Query:
        """Parse a query inside the statement. Errors have positions in the statement."""
        with positions_from(inner.offset - self.piece.offset):
            return read_query(inner, self.dialect)

    def inner(self) -> Statement:
        """The rest as a query, or one that is set aside."""
        rest = self.rest()
        return set_aside(rest) if self._aside(rest) else as_statement(self.query(rest))

    def listed(self, read: Callable[[], T]) -> list[T]:
        """Read a list with ``read``, separated by commas."""
        found = [read()]
        while self.take(","):
            found.append(read())
        return found

    def in_brackets(self, read: Callable[[], T]) -> list[T]:
        self.expect("(")
        found = self.listed(read)
        self.expect(")")
        return found

    def parts(self) -> list[TokenReader]:
        """A reader of each item in the bracket that comes next, split at its outer commas."""
        found: list[TokenReader] = []
        first, piece = self._at + 1, self.bracketed()
        start, depth = 0, 0
        for at, word in enumerate((*piece.words, ",")):
            depth += (word in "([") - (word in ")]") if len(word) == 1 else 0
            if word != "," or depth:
                continue
            if at == start:
                self._at = first + at
                raise self.error()
            found.append(TokenReader(self._cut(piece.tokens[start:at]), self.dialect, self._aside))
            start = at + 1
        return found

    def _cut(self, tokens: tuple[Token, ...]) -> Piece:
        first, last = tokens[0].start, tokens[-1].end + 1
        own = self.piece
        return Piece(own.sql[first - own.offset : last - own.offset], tokens, first)

    def _written(self, token: Token) -> str:
        return self._cut((token,)).sql

    def _next(self) -> Token | None:
        tokens = self.piece.tokens
        return tokens[self._at] if self._at < len(tokens) else None

    def word(self) -> str:
        """The next token in upper case if it is a word or a sign without quotes, else ''."""
        token = self._next()
        if token is None or token.token_type in _QUOTED or token.token_type is TokenType.NUMBER:
            return ""
        return token.text.upper()

    def take(self, *words: str) -> bool:
        """Skip these words and return True, if they come next."""
        start = self._at
        for word in words:
            if self.word() != word:
                self._at = start
                return False
            self._at += 1
        return True

    def expect(self, *words: str) -> None:
        for word in words:
            if not self.take(word):
                raise self.error()

    def one_of(self, *words: str) -> str:
        """Read the next word, which must be one of these."""
        word = self.word()
        if word not in words:
            raise self.error()
        self._at += 1
        return word

    def name(self) -> str:
        """An identifier as PostgreSQL reads it: at most 63 bytes and, unless it is quoted, A to Z
        in lower case."""
        token = self._next()
        # The tokenizer calls 0x an identifier too.
        if token is not None and token.token_type is TokenType.IDENTIFIER:
            if self.piece.sql[token.start - self.piece.offset].isdigit():
                raise self.error()
            self._at += 1
            return cut(token.text)
        word = self.word()
        if not _WORD.fullmatch(word):
            raise self.error()
        self._at += 1
        return cut((word if token is None else token.text).translate(_FOLDED))

    def dotted_name(self) -> str:
        """Identifiers separated by periods; names of settings have no case."""
        name = self.name()
        while self.take("."):
            name += "." + self.name()
        return name.lower()

    def string(self) -> str | None:
        """The text of a string, if that comes next."""
        token = self._next()
        if token is None or token.token_type not in _STRINGS:
            return None
        self._at += 1
        return token.text

    def escaped_string(self) -> str | None:
        """As `string`, or E'…' with escapes of one letter."""
        token = self._next()
        if token is None or token.token_type is not TokenType.BYTE_STRING:
            return self.string()
        written = self._written(token)
        if written[:1] not in "eE" or not _ESCAPED.fullmatch(written[2:-1]):
            raise self.error()
        self._at += 1
        return token.text

    def option(self) -> str | None:
        """The value of an option in brackets, if it has one."""
        if self.word() in (",", ")"):
            return None
        text = self.escaped_string()
        return self.number() or self.name() if text is None else text

    def number(self) -> str | None:
        """The digits of a number with its sign, if that comes next."""
        start = self._at
        sign = "-" if self.take("-") else ""
        if not sign:
            self.take("+")
        point = "." if self.take(".") else ""
        token = self._next()
        if token is None or token.token_type is not TokenType.NUMBER:
            self._at = start
            return None
        if not _NUMBER.fullmatch(token.text):
            raise self.error()
        self._at += 1
        digits = token.text.lstrip("0") if token.text.isdigit() and not point else token.text
        return f"{sign}{point}{digits or '0'}"

    def ended(self) -> bool:
        return self._next() is None

    def rest(self) -> Piece:
        """Read all that is left, as a statement of its own."""
        token, piece, start = self._next(), self.piece, self._at
        if token is None:
            raise self.error()
        self._at = len(piece.tokens)
        return Piece(piece.sql[token.start - piece.offset :], piece.tokens[start:], token.start)

    def bracketed(self) -> Piece:
        """Read the bracket that comes next, and return what is inside."""
        self.expect("(")
        start, depth = self._at, 1
        while depth:
            word = self.word()
            if self.ended():
                raise self.error()
            depth += (word == "(") - (word == ")")
            self._at += 1
        tokens = self.piece.tokens[start : self._at - 1]
        if not tokens:
            self._at -= 1
            raise self.error()
        return self._cut(tokens)

    def position(self) -> int:
        """Where the next token starts in the piece, from 1."""
        token = self._next()
        piece = self.piece
        return len(piece.sql) + 1 if token is None else token.start - piece.offset + 1

    def error(self) -> SQLSyntaxError:
        """A syntax error at the next token."""
        token = self._next()
        hint = f"Write {self.usage}."
        if token is None:
            message = "syntax error at end of input"
        else:
            message = f'syntax error at or near "{self._written(token)[:40]}"'
        return SQLSyntaxError(message, hint=hint, position=self.position())
