"""Connections to the catalog's PostgreSQL: few, kept open, each for a role, a database, settings.

No statement that is put to them leaves anything behind, so that analysts' sessions share them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Final, TypeAlias

from tallyveil import deadline
from tallyveil.cache import Cache
from tallyveil.catalog.link import GRACE, LOOK, CatalogError, CatalogLink, run, unavailable
from tallyveil.catalog.messages import SYNC, parse
from tallyveil.errors import StatementTooComplex
from tallyveil.locks import Rank, ranked_lock
from tallyveil.quoting import identifier

__all__ = [
    "ADMINISTRATION",
    "CHECK",
    "DATABASE",
    "EVERYBODY",
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
"""A prepared statement of each connection, with a sign that clients use in no name: how many
relations that are not PostgreSQL's own, whose numbers are below 16384, this transaction has named.
"""

_CHECK_SQL: Final = (
    "SELECT pg_catalog.count(*) FROM pg_catalog.pg_locks WHERE locktype OPERATOR(pg_catalog.=) "
    "'relation' AND pid OPERATOR(pg_catalog.=) {pid} AND relation OPERATOR(pg_catalog.>=) '16384'"
)

TEMPLATE: Final = "template1"
ADMINISTRATION: Final = "internal"
DATABASE: Final = "tallyveil"
SUPERUSER: Final = "tallyveil"
EVERYBODY: Final = "analyst"
"""What databases are copies of, and nobody connects to; where they are made from; that of who
cannot have one of the name they connected to; the role that owns all of it; that of all analysts,
and of who cannot have one of their own name."""

_IDLE: Final = 16
_SHARE: Final = 2
_ROLES: Final = 1000
"""Connections kept open though nobody asks; those of one role in use; roles made on demand."""

_HELD: Final = 32 << 20
"""Bytes that a connection may hold while nobody asks: PostgreSQL keeps a prepared statement with
all that its views stand for, which a text of 5 kB makes 20 MB."""

_DATABASES: Final = 8
"""Beside the one that there is at first, each of 8 MB."""

# Another thread or process has made the role or the database, or is just making it or changing its
# privileges.
_EXISTS: Final = ("42710", "42P04", "23505", "XX000")

_RESERVED: Final = frozenset({"public", "none", SUPERUSER, EVERYBODY})
_NOT_COPIES: Final = frozenset({TEMPLATE, ADMINISTRATION, "template0"})


def making(database: str) -> tuple[str, ...]:
    """The statements that make a database like all; privileges on it are not the template's."""
    name = identifier(database)
    return (
        f"CREATE DATABASE {name} STRATEGY file_copy",
        f"REVOKE ALL ON DATABASE {name} FROM PUBLIC",
        f"GRANT CONNECT ON DATABASE {name} TO {EVERYBODY}",
    )


class Databases:
    """The names that clients connect to, of which the first few have databases, as tools compare
    the name with what they find. Processes that serve together share one."""

    def __init__(self) -> None:
        self._names = {DATABASE}

    def take(self, name: str) -> str:
        """The database for who connects to that name."""
        if name in _NOT_COPIES or not _is_name(name):
            return DATABASE
        if len(self._names) <= _DATABASES:
            self._names.add(name)
        return name if name in self._names else DATABASE


class Pool:
    """``address`` gives the path of the socket now, and raises CatalogError where there is none.

    ``sound`` has statements, with their settings, that were found to name nothing but catalogs:
    what there is never changes.
    """

    def __init__(self, address: Callable[[], str]) -> None:
        self._address = address
        self._lock = ranked_lock(Rank.LEAF)
        self.sound: Final[Cache[bool]] = Cache(1024, 1 << 23, lambda key, _: 2 * len(str(key)))
        self._idle: deque[tuple[_Key, CatalogLink]] = deque()
        self._made = {DATABASE}
        self._places: dict[str, threading.BoundedSemaphore] = {}

    @contextmanager
    def link(self, user: str, database: str, settings: ServerSettings) -> Iterator[CatalogLink]:
        """A connection as the analyst, to the database of that name, which is made where there is
        none. It is kept if nothing is raised here.

        Raises CatalogError, what `deadline.check` raises, and Failed where it cannot be made.
        """
        role = self._role(user)
        self._make_database(database)
        key = role, database, settings
        with self._lock:
            place = self._places.setdefault(role, threading.BoundedSemaphore(_SHARE))
        _enter(place)
        with ExitStack() as failed:
            failed.callback(place.release)
            found = self._kept(key) or self._connect(key)
            failed.pop_all()
            failed.callback(found.close, place.release)  # another has its place once it has ended
            yield found
            failed.pop_all()
        self._keep(key, found)
        place.release()

    def clear(self) -> None:
        """Close those that nobody uses."""
        with self._lock:
            links, self._idle = self._idle, deque()
        for _, link in links:
            link.close()

    def _kept(self, key: _Key) -> CatalogLink | None:
        with self._lock:
            for entry in reversed(self._idle):
                if entry[0] == key:
                    self._idle.remove(entry)
                    return entry[1]
        return None

    def _keep(self, key: _Key, link: CatalogLink) -> None:
        if link.held > _HELD:
            link.close()
            return
        with self._lock:
            self._idle.append((key, link))
            old = self._idle.popleft() if len(self._idle) > _IDLE else None
        if old is not None:
            old[1].close()

    def _connect(self, key: _Key) -> CatalogLink:
        link = CatalogLink(self._address(), *key)
        with ExitStack() as failed:
            failed.callback(link.close)
            prepare = parse(CHECK, _CHECK_SQL.format(pid=link.pid)) + SYNC
            for _ in link.ask(prepare, GRACE):
                pass
            failed.pop_all()
        return link

    def _role(self, user: str) -> str:
        """The analyst's own role, which is made where there is none."""
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
        if name not in self._made:
            self._make(*making(name))
            self._made.add(name)

    def _make(self, *statements: str) -> None:
        """What others make at the same time is the same."""
        for statement in statements:
            with closing(CatalogLink(self._address(), SUPERUSER, ADMINISTRATION)) as link:
                try:
                    run(link, statement, GRACE)
                except CatalogError as error:
                    if error.sqlstate not in _EXISTS:
                        raise


def _is_name(text: str) -> bool:
    return text.isprintable() and 0 < len(text.encode()) < 64


def _enter(place: threading.BoundedSemaphore) -> None:
    try:
        while not place.acquire(timeout=LOOK):
            deadline.check()
    except StatementTooComplex:
        raise unavailable(f"{_SHARE} statements of yours are under way there") from None
