"""What was answered, as bytes, to be sent again to who repeats a statement.

A reply holds for the same user and settings, the same statement, parameters and formats, and as
long as nobody has anything charged or recorded (`GateSession.standing`). Results that depend on
something else, such as the time, are not `Result.repeatable` and not kept. To send a reply takes no
part of the gate, and costs nothing, as asking again does. How a query is described holds for the
same user and settings, whatever is charged.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from tallyveil.cache import Cache
from tallyveil.gate import GateSession
from tallyveil.gate.interface import Result
from tallyveil.proxy.execution.kept import PreparedStatement
from tallyveil.proxy.execution.rows import Fields

__all__ = ["KeptReply", "Replies", "ReplyKey", "asked"]

_MOST: Final = 4096
_ROOM: Final = 1 << 25
_OVERHEAD: Final = 2048
"""Replies, their bytes, and those of one beside what it says and the statement."""

_PREPARED: Final = 1 << 23
"""Bytes of the descriptions of queries."""


@dataclass(frozen=True, slots=True)
class KeptReply:
    """``sent`` is all that answers the statement; ``fields`` and ``result`` are of its rows, which
    are left out."""

    sent: bytes
    fields: Fields | None
    result: Result
    statement: str


@dataclass(frozen=True, slots=True)
class ReplyKey:
    """A statement by somebody, when the ledger had come to ``position``."""

    key: Hashable
    position: Hashable


class Replies:
    """Shared by all connections of a server."""

    def __init__(self) -> None:
        self._kept: Cache[tuple[Hashable, KeptReply]] = Cache(
            _MOST,
            _ROOM,
            lambda _, kept: _OVERHEAD + len(kept[1].sent) + 2 * sys.getsizeof(kept[1].statement),
        )
        self.prepared: Final[Cache[PreparedStatement]] = Cache(
            _MOST, _PREPARED, lambda _, prepared: prepared.size
        )

    def find(self, asked: ReplyKey) -> KeptReply | None:
        kept = self._kept.find(asked.key)
        return kept[1] if kept is not None and kept[0] == asked.position else None

    def keep(self, asked: ReplyKey, now: ReplyKey | None, reply: KeptReply) -> None:
        """``now`` is the same once it is answered: if more was recorded meanwhile, by the statement
        itself or by others, the next answer may be another."""
        if reply.result.repeatable and now == asked:
            self._kept.put(asked.key, (asked.position, reply))


def asked(session: GateSession, statement: Hashable) -> ReplyKey | None:
    """None if it cannot be known what the answer depends on."""
    standing = session.standing()
    return None if standing is None else ReplyKey((standing[0], statement), standing[1])
