"""What E'…' says, by PostgreSQL's escapes."""

from __future__ import annotations

import re
from typing import Final

from tallyveil.errors import InvalidEncoding, SQLSyntaxError

__all__ = ["read_escapes"]

_CODE: Final = r"\\(?:u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8})"
_PART: Final = re.compile(
    rf"(?P<codes>(?:{_CODE})++)|\\(?P<octal>[0-7]{{1,3}})|\\x(?P<hex>[0-9A-Fa-f]{{1,2}})"
    r"|\\(?P<letter>.)|(?:''|[^\\'])",
    re.DOTALL,
)
_LETTERS: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def read_escapes(written: str, position: int) -> str:
    r"""The text that E'…' stands for; ``position`` is where it begins in the statement.

    ``\x41`` and ``\101`` are bytes of UTF-8, ``\u0041`` and ``\U00000041`` characters.

    Raises InvalidEncoding for bytes that are no UTF-8 or hold a NUL, and SQLSyntaxError for a
    Unicode escape that names no character.
    """
    said = bytearray()
    for part in _PART.finditer(written, 2, len(written) - 1):
        match part.lastgroup:
            case "octal":
                said.append(int(part["octal"], 8) & 0xFF)
            case "hex":
                said.append(int(part["hex"], 16))
            case "codes":
                said += _characters(part, position)
            case "letter":
                if part["letter"] in "uU":
                    raise _no_character(part, position)
                said += _encoded(_LETTERS.get(part["letter"], part["letter"]))
            case _:
                said += _encoded(part[0][:1])
    return _decoded(said, position)


def _encoded(character: str) -> bytes:
    return character.encode(errors="surrogatepass")


def _characters(part: re.Match[str], position: int) -> bytes:
    """Unicode escapes side by side: two halves of a surrogate pair are one character."""
    codes = [int(one[2:], 16) for one in re.findall(_CODE, part["codes"])]
    if not all(0 < code < 0x110000 for code in codes):
        raise _no_character(part, position)
    halves = "".join(map(chr, codes)).encode("utf-16-le", errors="surrogatepass")
    try:
        return halves.decode("utf-16-le").encode()
    except UnicodeDecodeError:
        raise _no_character(part, position) from None


def _no_character(part: re.Match[str], position: int) -> SQLSyntaxError:
    return SQLSyntaxError(
        f'invalid Unicode escape at or near "{part[0][:40]}"',
        hint="Unicode escapes are \\uXXXX and \\UXXXXXXXX, by the number of a character.",
        position=position + part.start(),
    )


def _decoded(said: bytearray, position: int) -> str:
    wrong = said.find(0)
    try:
        text = said.decode()
    except UnicodeDecodeError as error:
        text, wrong = "", error.start
    if wrong >= 0:
        raise InvalidEncoding(
            f'invalid byte sequence for encoding "UTF8": 0x{said[wrong]:02x}', position=position
        )
    return text
