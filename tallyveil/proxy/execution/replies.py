"""A cache of replies, as bytes, which are sent again when a statement is repeated.

A reply is valid for the same user and settings, the same statement, parameters and formats, and
until anything is charged or recorded for anybody (`GateSession.standing`). Results that depend on
something else, such as the time, are not `Result.repeatable` and are not cached. Sending a cached
reply does not use the gate and costs nothing, as asking again would. The description of a query is
valid for the same user and settings, whatever is charged.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from tallyveil.cache import Cache
from tallyveil.gate import GateSession
from tallyveil.gate.interface import Result
from tallyveil.proxy.execution.named_objects import PreparedStatement
from tallyveil.proxy.execution.pending_rows import Fields

__all__ = ["KeptReply", "Replies", "ReplyKey", "asked"]

_MOST: Final = 4096
_ROOM: Final = 1 << 25
_OVERHEAD: Final = 2048
"""The most replies, the most bytes of them, and the bytes of one in addition to its messages and
its statement."""

_PREPARED: Final = 1 << 23
"""The most bytes of the cached descriptions of queries."""


@dataclass(frozen=True, slots=True)
class KeptReply:
    """A cached reply. ``sent`` are all messages that answer the statement; ``fields`` and
    ``result`` describe its rows without containing them."""

    sent: bytes
    fields: Fields | None
    result: Result
    statement: str


@dataclass(frozen=True, slots=True)
class ReplyKey:
    """The key of a reply: ``key`` identifies the statement, its user and the settings; ``position``
    is the ledger's position when it was asked."""

    key: Hashable
    position: Hashable


class Replies:
    """The caches of replies and descriptions, shared by all connections of a server."""

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
        """The cached reply if it is still valid, else None."""
        kept = self._kept.find(asked.key)
        return kept[1] if kept is not None and kept[0] == asked.position else None

    def keep(self, asked: ReplyKey, now: ReplyKey | None, reply: KeptReply) -> None:
        """Cache a reply. ``now`` is the key after the answer. If it differs from ``asked``, the
        statement itself or another one was recorded meanwhile, so that the next answer may differ:
        then nothing is cached."""
        if reply.result.repeatable and now == asked:
            self._kept.put(asked.key, (asked.position, reply))


def asked(session: GateSession, statement: Hashable) -> ReplyKey | None:
    """The key of a statement's reply now, or None if it is unknown what the answer depends on."""
    standing = session.standing()
    return None if standing is None else ReplyKey((standing[0], statement), standing[1])
