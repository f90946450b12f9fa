"""The words of a statement, read one after the other to its end."""

from __future__ import annotations

import re
from string import ascii_lowercase, ascii_uppercase
from typing import Final

from sqlglot.tokenizer_core import Token, TokenType

from tallyveil.errors import SQLSyntaxError
from tallyveil.gate.settings.values import cut
from tallyveil.rewriter import Piece

__all__ = ["Reader"]

_FOLDED: Final = str.maketrans(ascii_uppercase, ascii_lowercase)
_WORD: Final = re.compile(r"[^\W\d][\w$]*")
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


class Reader:
    """Reads the tokens of a piece in order. ``usage`` is what an error says to write instead."""

    def __init__(self, piece: Piece, usage: str) -> None:
        self._piece = piece
        self._at = 0
        self.usage = usage

    @property
    def at(self) -> int:
        """The number of the next token."""
        return self._at

    def _next(self) -> Token | None:
        tokens = self._piece.tokens
        return tokens[self._at] if self._at < len(tokens) else None

    def word(self) -> str:
        """The next token in upper case if it is a word or a sign without quotes, else ''."""
        token = self._next()
        if token is None or token.token_type in _QUOTED or token.token_type is TokenType.NUMBER:
            return ""
        return token.text.upper()

    def take(self, *words: str) -> bool:
        """Go past these words, if they are the next ones."""
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
        """The next word, which is one of these."""
        word = self.word()
        if word not in words:
            raise self.error()
        self._at += 1
        return word

    def name(self) -> str:
        """An identifier as PostgreSQL knows it: of 63 bytes, and unless it is quoted, A to Z in
        lower case."""
        token = self._next()
        if token is not None and token.token_type is TokenType.IDENTIFIER:
            self._at += 1
            return cut(token.text)
        word = self.word()
        if not _WORD.fullmatch(word):
            raise self.error()
        self._at += 1
        return cut((word if token is None else token.text).translate(_FOLDED))

    def dotted_name(self) -> str:
        """Identifiers with points between; names of settings have no case."""
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
        piece = self._piece
        written = piece.sql[token.start - piece.offset : token.end - piece.offset + 1]
        if written[:1] not in "eE" or not _ESCAPED.fullmatch(written[2:-1]):
            raise self.error()
        self._at += 1
        return token.text

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
        self._at += 1
        digits = token.text.lstrip("0") if token.text.isdigit() and not point else token.text
        return f"{sign}{point}{digits or '0'}"

    def ended(self) -> bool:
        return self._next() is None

    def end(self) -> None:
        if not self.ended():
            raise self.error()

    def rest(self) -> Piece:
        """What is left, as a statement of its own."""
        token = self._next()
        if token is None:
            raise self.error()
        piece = self._piece
        text = piece.sql[token.start - piece.offset :]
        return Piece(text, piece.tokens[self._at :], token.start)

    def bracketed(self) -> Piece:
        """What stands in the bracket that comes next, which is gone past."""
        self.expect("(")
        start, depth = self._at, 1
        while depth:
            word = self.word()
            if self.ended():
                raise self.error()
            depth += (word == "(") - (word == ")")
            self._at += 1
        tokens, piece = self._piece.tokens[start : self._at - 1], self._piece
        if not tokens:
            self._at -= 1
            raise self.error()
        first, last = tokens[0].start - piece.offset, tokens[-1].end - piece.offset
        return Piece(piece.sql[first : last + 1], tokens, tokens[0].start)

    def position(self) -> int:
        """Where the next token starts in the piece, from 1."""
        token = self._next()
        piece = self._piece
        return len(piece.sql) + 1 if token is None else token.start - piece.offset + 1

    def error(self) -> SQLSyntaxError:
        """The next token is wrong."""
        token = self._next()
        hint = f"Write {self.usage}."
        if token is None:
            message = "syntax error at end of input"
        else:
            piece = self._piece
            shown = piece.sql[token.start - piece.offset : token.end - piece.offset + 1][:40]
            message = f'syntax error at or near "{shown}"'
        return SQLSyntaxError(message, hint=hint, position=self.position())
