"""Conversations of frontend messages with mistakes in them, each from a seed.

What a conversation says ends at the end of a message, however its messages are spoilt: what a
claimed length leaves open is filled with zeros. So a server that waits for more hangs.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tallyveil.proxy.protocol import messages as m
from tests.proxy.raw_client import write

__all__ = ["MESSAGES", "Conversation", "conversation"]

MESSAGES: Final = 50
"""Of a conversation."""

LIMIT: Final = 1 << 20
STARTUP: Final = m.Startup(3 << 16, (("user", "fuzz"), ("database", "people")))

_STATEMENTS: Final = (
    "SELECT 1",
    "SELECT count(*) FROM person WHERE age < 30",
    "SELECT age, count(*) FROM person GROUP BY age",
    "SELECT $1::int + 1",
    "SELECT count(*) FROM person WHERE age = $1",
    "SELECT * FROM dp.budget",
    "COPY (SELECT age, count(*) FROM person GROUP BY age) TO STDOUT",
    "BEGIN",
    "ROLLBACK",
    "SAVEPOINT s",
    "SET dp.epsilon = 0.1",
    "SHOW TimeZone",
    "EXPLAIN SELECT count(*) FROM person",
    "SELECT 'é', NULL, ARRAY[1, 2]",
    "DEALLOCATE ALL",
    "",
)
_VALUES: Final = (b"1", b"", None, b"\0\0\0\1", b"{1,2}", b"\xff\xfe", b"9" * 40, b"x" * 3000)
_EXTREME: Final = (0, 1, 3, 4, 0x7F, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, LIMIT)


@dataclass(frozen=True)
class Conversation:
    """``data`` is what a client says; ``logs_in`` whether it does so first, as it should."""

    data: bytes
    logs_in: bool


def conversation(seed: int, number: int) -> Conversation:
    """The same for the same numbers. One in ten spoils its first words."""
    chance = random.Random(f"{seed}:{number}")
    if chance.random() < 0.1:
        first = chance.choice(
            (STARTUP, m.SSLRequest(), m.GSSENCRequest(), m.CancelRequest(7, b"abcd"))
        )
        return Conversation(_filled(_spoilt(chance, write(first)), LIMIT, typed=False), False)
    said = b"".join(_said(chance) for _ in range(MESSAGES))
    return Conversation(_filled(said, LIMIT, typed=True), True)


def _said(chance: random.Random) -> bytes:
    """A message as it should be, or with fields that make no sense, or spoilt: after that most
    servers close."""
    kind = chance.random()
    data = write(_message(chance, sound=kind < 0.2))
    return _spoilt(chance, data) if kind > 0.97 else data


def _message(chance: random.Random, *, sound: bool) -> m.Message:
    def name() -> str:
        return chance.choice(("", "a", "b")) if sound or chance.random() < 0.8 else _word(chance)

    def codes() -> tuple[int, ...]:
        worst = 1 if sound else chance.choice((1, 1, 1, 0xFFFF))
        return tuple(chance.randint(0, worst) for _ in range(chance.choice((0, 0, 1, 1, 2))))

    def values() -> tuple[bytes | None, ...]:
        return tuple(chance.choice(_VALUES) for _ in range(chance.choice((0, 0, 1, 1, 2))))

    def sql() -> bytes:
        text = chance.choice(_STATEMENTS).encode()
        return text if sound else _spoilt(chance, text).replace(b"\0", b" ")

    makers: tuple[Callable[[], m.Message], ...] = (
        lambda: m.Query(sql()),
        lambda: m.Parse(name(), sql(), tuple(chance.choice((0, 23, 25, 2**31)) for _ in codes())),
        lambda: m.Bind(name(), name(), codes(), values(), codes()),
        lambda: m.Bind("", "", (), (), ()),
        lambda: m.Describe(chance.choice("SP"), name()),
        lambda: m.Execute(name(), chance.choice((0, 1, 100, -1))),
        lambda: m.Close(chance.choice("SP"), name()),
        m.Sync,
        m.Sync,
        m.Flush,
        m.CopyMessage,
        m.FunctionCall,
    )
    return chance.choice(makers)()


def _word(chance: random.Random) -> str:
    return "".join(chance.choice("aB é\u20ac'\"\n") for _ in range(chance.choice((1, 63, 5_000))))


def _spoilt(chance: random.Random, data: bytes) -> bytes:
    """With one mistake, or two."""
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2))):
        at = chance.randrange(len(changed)) if changed else 0
        match chance.randrange(7):
            case 0 if changed:
                changed[at] ^= 1 << chance.randrange(8)
            case 1:
                changed[at:at] = chance.randbytes(chance.choice((1, 2, 50)))
            case 2:
                del changed[at : at + chance.choice((1, 4, 100))]
            case 3:  # a number anywhere, a length among them
                changed[at : at + 4] = struct.pack("!I", chance.choice(_EXTREME))
            case 4:
                changed[1:5] = struct.pack("!I", chance.choice(_EXTREME))
            case 5:
                changed += changed[at:]
            case _:
                changed[at:at] = bytes(chance.choice((1, 7)))
    return bytes(changed)


def _filled(data: bytes, limit: int, *, typed: bool) -> bytes:
    """With the bytes that its last message still needs; what no server reads on from stays."""
    at, head = 0, 1 if typed else 0
    while at < len(data):
        whole = data[at : at + head + 4]
        if len(whole) < head + 4:
            return data[:at]
        (length,) = struct.unpack_from("!I", whole, head)
        if not 4 <= length <= limit:
            return data
        at += head + length
        head = 1
    return data + bytes(at - len(data))
