"""A pool of connections to the catalog's PostgreSQL, by role, database and settings.

No statement sent over them has a lasting effect, so analysts' sessions can share them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import Final, TypeAlias

from tallyveil import deadline
from tallyveil.cache import Cache
from tallyveil.catalog.catalog_messages import SYNC, parse
from tallyveil.catalog.link import GRACE, LOOK, CatalogError, CatalogLink, run, unavailable
from tallyveil.errors import StatementTooComplex
from tallyveil.locks import Rank, ranked_lock
from tallyveil.quoting import identifier

__all__ = [
    "ADMINISTRATION",
    "CHECK",
    "DATABASE",
    "EVERYBODY",
    "LINKS",
    "SUPERUSER",
    "TEMPLATE",
    "Databases",
    "Pool",
    "ServerSettings",
    "making",
]

ServerSettings: TypeAlias = tuple[tuple[str, str], ...]
_Key: TypeAlias = tuple[str, str, ServerSettings]  # a role and a database

CHECK: Final = "\1check"
"""The name of a statement prepared on each connection, with a character that clients never use. It
counts the relations that this transaction has named, other than PostgreSQL's own, whose OIDs are
below 16384."""

_CHECK_SQL: Final = (
    "SELECT pg_catalog.count(*) FROM pg_catalog.pg_locks WHERE locktype OPERATOR(pg_catalog.=) "
    "'relation' AND pid OPERATOR(pg_catalog.=) {pid} AND relation OPERATOR(pg_catalog.>=) '16384'"
)

TEMPLATE: Final = "template1"
ADMINISTRATION: Final = "internal"
DATABASE: Final = "tallyveil"
SUPERUSER: Final = "tallyveil"
EVERYBODY: Final = "analyst"
"""In this order: the database that all others are copies of, which no client connects to; the
database from which others are created; the one for clients that cannot have a database of the name
that they gave; the role that owns everything; the group role of all analysts, which is also the
role of analysts that cannot have one of their own name."""

LINKS: Final = 16
_SHARE: Final = 2
_ROLES: Final = 1000
"""The most connections, idle ones among them, the most connections of one role in use, and the most
roles created on demand."""

_HELD: Final = 32 << 20
"""Bytes of memory that an idle connection may hold, half of what it may ever have. PostgreSQL
stores a prepared statement with its views expanded, so that a text of 5 kB takes 20 MB."""

_DATABASES: Final = 8
"""The most databases created on demand, each of 8 MB."""

_NAME: Final = 64
"""The bytes of PostgreSQL's names, with a last one that is 0."""

# Another thread or process has created the role or the database, or is just creating it or changing
# its privileges.
_EXISTS: Final = ("42710", "42P04", "23505", "XX000")

_RESERVED: Final = frozenset({"public", "none", SUPERUSER, EVERYBODY})
_NOT_COPIES: Final = frozenset({TEMPLATE, ADMINISTRATION, "template0", DATABASE})


def making(database: str) -> tuple[str, ...]:
    """The statements that create a database and set the privileges on it, which are not copied from
    the template."""
    name = identifier(database)
    return (
        f"CREATE DATABASE {name} STRATEGY file_copy",
        f"REVOKE ALL ON DATABASE {name} FROM PUBLIC",
        f"GRANT CONNECT ON DATABASE {name} TO {EVERYBODY}",
    )


class Databases:
    """The names that clients connect to. The first few get a database of that name, since tools
    compare the name with the database's. Processes that serve together share ``memory`` of `SIZE`
    bytes, zeros at first.
    """

    SIZE: Final = _DATABASES * _NAME

    def __init__(self, memory: memoryview) -> None:
        self._names = [memory[at : at + _NAME] for at in range(0, self.SIZE, _NAME)]

    def take(self, name: str) -> str:
        """The database for a client that connects to ``name``. One call at a time."""
        if name in _NOT_COPIES or not _is_name(name):
            return DATABASE
        wanted = name.encode().ljust(_NAME, b"\0")
        for known in self._names:
            if not any(known):
                known[:] = wanted
            if known == wanted:
                return name
        return DATABASE


class Pool:
    """``address()`` returns the current path of the socket, or raises CatalogError.

    There are at most ``links`` connections: if all exist, an idle one is closed; if none is idle, a
    statement waits. Each process of PostgreSQL has a limit of memory (`launch.MEMORY`), so this
    also bounds the memory of all.

    ``sound`` caches the statements, with their settings, that were found to name only catalogs.
    The relations never change, so this stays true.
    """

    def __init__(self, address: Callable[[], str], links: int = LINKS) -> None:
        self._address = address
        self._links = threading.BoundedSemaphore(links)
        self._lock = ranked_lock(Rank.LEAF)
        self.sound: Final[Cache[bool]] = Cache(1024, 1 << 23, lambda key, _: 2 * len(str(key)))
        self._idle: deque[tuple[_Key, CatalogLink]] = deque()
        self._created = {DATABASE}
        self._places: dict[str, threading.BoundedSemaphore] = {}

    @contextmanager
    def link(self, user: str, database: str, settings: ServerSettings) -> Iterator[CatalogLink]:
        """A connection as the analyst to the database, both created on demand. Afterwards it
        returns to the pool, but if the caller's block raises, it is closed.

        Raises CatalogError, what `deadline.check` raises, and Failed if it cannot connect.
        """
        role = self._role(user)
        self._make_database(database)
        key = role, database, settings
        with self._lock:
            place = self._places.setdefault(role, threading.BoundedSemaphore(_SHARE))
        _enter(place, f"{_SHARE} of your statements are already running there")
        with ExitStack() as failed:
            failed.callback(place.release)
            link = self._take_idle(key) or self._connect(key)
            failed.pop_all()
            # Its places are free once it has ended.
            failed.callback(link.close, partial(_leave, self._links, place))
            yield link
            failed.pop_all()
        self._keep(key, link)
        place.release()

    def clear(self) -> None:
        """Close the idle connections."""
        while self._close_idle():
            pass

    def _close_idle(self) -> bool:
        """Close the connection that has been idle longest. Returns False if none is idle."""
        with self._lock:
            if not self._idle:
                return False
            _, link = self._idle.popleft()
        link.close(self._links.release)
        return True

    def _take_idle(self, key: _Key) -> CatalogLink | None:
        with self._lock:
            for entry in reversed(self._idle):
                if entry[0] == key:
                    self._idle.remove(entry)
                    return entry[1]
        return None

    def _keep(self, key: _Key, link: CatalogLink) -> None:
        if link.held > _HELD:
            link.close(self._links.release)
            return
        with self._lock:
            self._idle.append((key, link))

    def _connect(self, key: _Key) -> CatalogLink:
        _enter(self._links, "others' statements are running there", self._close_idle)
        with ExitStack() as failed:
            failed.callback(self._links.release)
            link = CatalogLink(self._address(), *key)
            failed.pop_all()
            failed.callback(link.close, self._links.release)
            prepare = parse(CHECK, _CHECK_SQL.format(pid=link.pid)) + SYNC
            for _ in link.ask(prepare, GRACE):
                pass
            failed.pop_all()
        return link

    def _role(self, user: str) -> str:
        """The analyst's own role, created on demand, or the group role if there can be none."""
        if user in _RESERVED or user.startswith("pg_") or not _is_name(user):
            return EVERYBODY
        with self._lock:
            if user in self._places:
                return user
            if len(self._places) >= _ROLES:
                return EVERYBODY
        self._make(f"CREATE ROLE {identifier(user)} LOGIN IN ROLE {EVERYBODY}")
        return user

    def _make_database(self, name: str) -> None:
        if name not in self._created:
            self._make(*making(name))
            self._created.add(name)

    def _make(self, *statements: str) -> None:
        """Execute statements that create a role or a database. If others create it at the same
        time, theirs is the same."""
        for statement in statements:
            with closing(CatalogLink(self._address(), SUPERUSER, ADMINISTRATION)) as link:
                try:
                    run(link, statement, GRACE)
                except CatalogError as error:
                    if error.sqlstate not in _EXISTS:
                        raise


def _is_name(text: str) -> bool:
    return text.isprintable() and 0 < len(text.encode()) < _NAME


def _leave(*places: threading.BoundedSemaphore) -> None:
    for place in places:
        place.release()


def _enter(
    place: threading.BoundedSemaphore, full: str, room: Callable[[], object] = lambda: None
) -> None:
    """Take a place. While there is none, call ``room``, which may make one, and wait. Raises
    CatalogError, as ``full`` says, if there is none in time."""
    if place.acquire(blocking=False):
        return
    try:
        room()
        while not place.acquire(timeout=LOOK):
            deadline.check()
            room()
    except StatementTooComplex:
        raise unavailable(full) from None
