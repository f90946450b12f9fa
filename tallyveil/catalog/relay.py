"""Describe and answer questions about the catalogs by their PostgreSQL.

PostgreSQL itself reports which relations a statement names. If one of them is not its own, the
statement is about the policy's tables, whatever `routing` decided, and is refused here. So a
question about a protected table never gets the answer of an empty table.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tallyveil import deadline
from tallyveil.catalog import catalog_messages as wire
from tallyveil.catalog.link import CatalogError, Failed, LinkReply, error, fields, unavailable
from tallyveil.catalog.pool import CHECK, LINKS, Pool, ServerSettings
from tallyveil.catalog.routing import Routing
from tallyveil.errors import FeatureNotSupported
from tallyveil.gate.interface import Notice

__all__ = ["CatalogAnswer", "CatalogQuestion", "CatalogSocket", "Relay", "ResultColumn"]

RECOVERY: Final = 2.0
PAUSE: Final = 0.05
"""Seconds that a restart may take, and between two attempts to connect."""

_FIELD: Final = struct.Struct("!IHIhih")


class ResultColumn(NamedTuple):
    """A column of an answer, with its type as in pg_type and pg_attribute."""

    name: str
    oid: int
    size: int
    typmod: int


@dataclass(frozen=True)
class CatalogQuestion:
    """A statement with its parameters, as bytes in ``formats``, and the formats of its columns.

    For EXECUTE, ``prepared`` is the statement it executes: name, SQL, OIDs of the parameters.
    """

    sql: str
    prepared: tuple[str, str, tuple[int, ...]] | None = None
    oids: tuple[int, ...] = ()
    formats: tuple[int, ...] = ()
    values: tuple[bytes | None, ...] = ()
    result_formats: tuple[int, ...] = ()


@dataclass
class CatalogAnswer:
    """``rows`` are pieces of a number of rows and their whole messages. If ``copied``, these are
    CopyData, and the messages before and after them. ``oids`` are the types of the parameters."""

    oids: tuple[int, ...] = ()
    columns: tuple[ResultColumn, ...] | None = None
    rows: list[tuple[int, bytes]] = field(default_factory=list)
    tag: str = ""
    notices: list[Notice] = field(default_factory=list)
    copied: bool = False


class CatalogSocket:
    """The catalog as the wire uses it. ``address()`` returns the path of its socket, or raises
    CatalogError if there is none; ``names`` are the policy's tables and views. ``processes`` that
    serve together have a catalog each, and share the connections that there may be.
    """

    def __init__(
        self, address: Callable[[], str], names: Collection[str], processes: int = 1
    ) -> None:
        self.takes: Final = Routing(names).takes
        self._pool: Final = Pool(address, -(-LINKS // processes))

    def close(self) -> None:
        """Close the idle connections."""
        self._pool.clear()

    def relay(self, user: str, database: str) -> Relay:
        """The relay for one session of ``user`` on ``database``; see `Databases`."""
        return Relay(self._pool, user, database)


class Relay:
    """The catalog for one analyst's session; used by one thread at a time."""

    def __init__(self, pool: Pool, user: str, database: str) -> None:
        self._pool = pool
        self._user = user
        self._database = database

    @deadline.taking(None)  # another process computes the answer, so this waits for no turn
    @deadline.doing(deadline.Phase.CATALOGS)
    def answer(
        self, question: CatalogQuestion, settings: ServerSettings, *, described: bool = False
    ) -> CatalogAnswer:
        """Answer the question or, if ``described``, only describe its parameters and columns.

        Raises CatalogError, FeatureNotSupported, and what `deadline.check` raises.
        """
        until = None
        while True:
            try:
                return self._once(question, settings, described=described)
            except Failed as failure:
                # PostgreSQL was restarted, or another statement crashed it.
                self._pool.clear()
                now = time.monotonic()
                until = until or now + RECOVERY
                if now > until:
                    raise unavailable(str(failure)) from None
                deadline.check()
                time.sleep(PAUSE)

    def _once(
        self, question: CatalogQuestion, settings: ServerSettings, *, described: bool
    ) -> CatalogAnswer:
        key = question.sql, question.oids, settings
        sound = self._pool.sound.find(key) or False
        reader = _Reader(checked=sound)
        with self._pool.link(self._user, self._database, settings) as link:
            name, before = link.keep(question.sql, question.oids) if sound else ("", b"")
            if not sound:
                before = _prepare(question) + wire.bind(CHECK) + wire.EXECUTE
            after = wire.describe(name) if described else _run(question, name)
            if question.prepared is not None:
                after += wire.close(question.prepared[0])
            for reply in link.ask(before + after + wire.SYNC):
                reader.read(reply)
            if (sound or question.prepared is not None) and reader.error is not None:
                # Raised inside the block, which closes the connection: it is unknown which
                # statements are still prepared there.
                raise reader.error
        answer = reader.finish()
        if not _is_copy(question.sql) and question.prepared is None:
            self._pool.sound.put(key, True)
        return answer


def _prepare(question: CatalogQuestion) -> bytes:
    named = b"" if question.prepared is None else wire.parse(*question.prepared)
    return named + wire.parse("", question.sql, question.oids)


def _run(question: CatalogQuestion, name: str) -> bytes:
    again = wire.bind(CHECK) + wire.EXECUTE if _is_copy(question.sql) else b""
    bound = wire.bind(name, question.formats, question.values, question.result_formats)
    return bound + wire.DESCRIBE_PORTAL + wire.EXECUTE + again


class _Reader:
    """Collects replies into an answer. The first row is the result of the check, unless the
    statement was ``checked`` earlier. After COPY, which names its relations only when it runs, a
    row is the result of a second check."""

    def __init__(self, *, checked: bool) -> None:
        self.answer = CatalogAnswer()
        self.error: CatalogError | FeatureNotSupported | None = None
        self._checks = self._ended = int(checked)

    def finish(self) -> CatalogAnswer:
        if self.error is not None:
            raise self.error
        if self._checks < 1 + self.answer.copied:
            raise unavailable("it did not report which relations the statement names")
        return self.answer

    def read(self, reply: LinkReply) -> None:
        answer = self.answer
        match reply.kind:
            case "E":
                self.error = self.error or error(reply.body)
            case "D" if not self._checks or answer.copied:
                self._check(reply.body)
            case "D" | "d" | "H" | "c":
                self._take(reply)
            case "C":
                self._ended += 1
                if self._ended == 2:
                    answer.tag = reply.body[:-1].decode()
            case "t":
                answer.oids = struct.unpack(f"!{len(reply.body) // 4}I", reply.body[2:])
            case "T":
                answer.columns = columns(reply.body)
            case "N":
                answer.notices.append(_notice(reply.body))

    def _check(self, row: bytes) -> None:
        self._checks += 1
        if row[-1:] != b"0" or row[-5:-1] != b"\0\0\0\1":
            self.error = self.error or FeatureNotSupported(
                "a statement about the catalogs cannot ask about the policy's tables as well",
                hint="Split it into two statements.",
            )

    def _take(self, reply: LinkReply) -> None:
        if reply.kind == "D":
            self.answer.rows.append((reply.rows, reply.body))
            return
        self.answer.copied = True
        message = reply.kind.encode() + (len(reply.body) + 4).to_bytes(4) + reply.body
        self.answer.rows.append((int(reply.kind == "d"), message))


def _is_copy(sql: str) -> bool:
    return sql[:4].upper() == "COPY"


def columns(body: bytes) -> tuple[ResultColumn, ...]:
    """The columns of a RowDescription."""
    found, at = [], 2
    for _ in range(int.from_bytes(body[:2])):
        end = body.index(b"\0", at)
        _, _, oid, size, typmod, _ = _FIELD.unpack_from(body, end + 1)
        found.append(ResultColumn(body[at:end].decode(), oid, size, typmod))
        at = end + 1 + _FIELD.size
    return tuple(found)


def _notice(body: bytes) -> Notice:
    found = fields(body)
    severity = found.get("V", "NOTICE")
    return Notice(
        found.get("M", ""),
        detail=found.get("D"),
        hint=found.get("H"),
        sqlstate=found.get("C", "00000"),
        severity="WARNING" if severity == "WARNING" else "NOTICE",
    )
