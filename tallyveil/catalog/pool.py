"""Connections to the catalog's PostgreSQL: few, kept open, each for one role and its settings.

No statement that is put to them leaves anything behind, so that analysts' sessions share them.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final, TypeAlias

from tallyveil import deadline
from tallyveil.cache import Cache
from tallyveil.catalog.link import GRACE, LOOK, CatalogError, Link, run, unavailable
from tallyveil.catalog.messages import SYNC, parse
from tallyveil.errors import StatementTooComplex
from tallyveil.locks import Rank, ranked_lock

__all__ = ["CHECK", "DATABASE", "EVERYBODY", "SUPERUSER", "Pool", "Settings"]

Settings: TypeAlias = tuple[tuple[str, str], ...]

CHECK: Final = "tallyveil_check"
"""A prepared statement of each connection: how many relations that are not PostgreSQL's own this
transaction has named. Its own have numbers below 16384."""

_CHECK_SQL: Final = (
    "SELECT pg_catalog.count(*) FROM pg_catalog.pg_locks WHERE locktype OPERATOR(pg_catalog.=) "
    "'relation' AND pid OPERATOR(pg_catalog.=) {pid} AND relation OPERATOR(pg_catalog.>=) '16384'"
)

DATABASE: Final = "tallyveil"
SUPERUSER: Final = "tallyveil"
EVERYBODY: Final = "analyst"
"""The database; the role that owns all of it; that of all analysts, and of who cannot have one of
their own name."""

_IDLE: Final = 16
_SHARE: Final = 2
_ROLES: Final = 1000
"""Connections kept open though nobody asks; those of one role in use; roles made on demand."""

# Another thread or process has made the role, or is just making it.
_EXISTS: Final = ("42710", "23505")

_RESERVED: Final = frozenset({"public", "none", SUPERUSER, EVERYBODY})


class Pool:
    """``address`` gives the path of the socket now, and raises CatalogError where there is none.

    ``sound`` has statements, with their settings, that were found to name nothing but catalogs:
    what there is never changes.
    """

    def __init__(self, address: Callable[[], str]) -> None:
        self._address = address
        self._lock = ranked_lock(Rank.LEAF)
        self.sound: Final[Cache[bool]] = Cache(1024, 1 << 23, lambda key, _: 2 * len(str(key)))
        self._idle: deque[tuple[str, Settings, Link]] = deque()
        self._places: dict[str, threading.BoundedSemaphore] = {}

    @contextmanager
    def link(self, user: str, settings: Settings) -> Iterator[Link]:
        """A connection as the analyst, which is kept if nothing is raised here.

        Raises CatalogError, what `deadline.check` raises, and Failed where it cannot be made.
        """
        role = self._role(user)
        place = self._place(role)
        _enter(place)
        with ExitStack() as failed:
            failed.callback(place.release)
            found = self._kept(role, settings) or self._connect(role, settings)
            failed.pop_all()
            failed.callback(found.close, place.release)  # another has its place once it has ended
            yield found
            failed.pop_all()
        self._keep(role, settings, found)
        place.release()

    def clear(self) -> None:
        """Close those that nobody uses."""
        with self._lock:
            links, self._idle = self._idle, deque()
        for _, _, link in links:
            link.close()

    def _place(self, role: str) -> threading.BoundedSemaphore:
        with self._lock:
            return self._places.setdefault(role, threading.BoundedSemaphore(_SHARE))

    def _kept(self, role: str, settings: Settings) -> Link | None:
        with self._lock:
            for entry in reversed(self._idle):
                if entry[:2] == (role, settings):
                    self._idle.remove(entry)
                    return entry[2]
        return None

    def _keep(self, role: str, settings: Settings, link: Link) -> None:
        with self._lock:
            self._idle.append((role, settings, link))
            old = self._idle.popleft() if len(self._idle) > _IDLE else None
        if old is not None:
            old[2].close()

    def _connect(self, role: str, settings: Settings) -> Link:
        link = Link(self._address(), role, DATABASE, settings)
        with ExitStack() as failed:
            failed.callback(link.close)
            prepare = parse(CHECK, _CHECK_SQL.format(pid=link.pid)) + SYNC
            for _ in link.ask(prepare, GRACE):
                pass
            failed.pop_all()
        return link

    def _role(self, user: str) -> str:
        """The analyst's own role, which is made where there is none."""
        named = user.isprintable() and 0 < len(user.encode()) < 64
        if user in _RESERVED or user.startswith("pg_") or not named:
            return EVERYBODY
        with self._lock:
            if user in self._places:
                return user
            if len(self._places) >= _ROLES:
                return EVERYBODY
        quoted = '"' + user.replace('"', '""') + '"'
        link = Link(self._address(), SUPERUSER, DATABASE)
        try:
            run(link, f"CREATE ROLE {quoted} LOGIN IN ROLE {EVERYBODY}", GRACE)
        except CatalogError as error:
            if error.sqlstate not in _EXISTS:
                raise
        finally:
            link.close()
        return user


def _enter(place: threading.BoundedSemaphore) -> None:
    try:
        while not place.acquire(timeout=LOOK):
            deadline.check()
    except StatementTooComplex:
        raise unavailable(f"{_SHARE} statements of yours are under way there") from None
