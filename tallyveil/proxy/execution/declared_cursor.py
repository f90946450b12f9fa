"""A cursor: the stored rows of one query, as values, and a position among them.

DECLARE executes the query, and charges it, with the settings of that moment; a refusal comes there.
FETCH and MOVE only read the stored rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from tallyveil.gate.interface import ColumnType, CursorOptions, Move
from tallyveil.proxy.client_memory import ConnectionMemory, size_of
from tallyveil.proxy.execution.pending_rows import Fields, PendingRows, fields_of, room_of
from tallyveil.proxy.protocol_errors import PortalCannotRun

__all__ = ["DeclaredCursor"]

_OVERHEAD: Final = 1024
_POINTER: Final = 8
"""Bytes of a cursor without rows, and of each row in addition to its values."""

_Rows = Sequence[Any]
"""Rows as tuples of values; for a question about the catalogs, as encoded messages."""


class DeclaredCursor:
    """A cursor of DECLARE. ``level`` is the number of savepoints when it was declared. It is
    ``settled`` once the transaction that declared it has committed.

    Its position is 0 before the first row, the number of the current row, or one more than the
    number of rows.
    """

    def __init__(
        self, name: str, options: CursorOptions, level: int, holding: ConnectionMemory
    ) -> None:
        self.options: Final = options
        self.level = level
        self.settled = self.relayed = False
        self.columns: tuple[ColumnType, ...] = ()
        self.fields: Fields | None = None
        self.formats: tuple[int, ...] | None = None
        self._name = name
        self._holding = holding
        self._size = 0
        self._rows: list[Any] = []
        self._place = 0
        self._failed = False
        self._take(_OVERHEAD + size_of(name))

    def begin(self, columns: Sequence[ColumnType]) -> Callable[[_Rows], None]:
        """Prepare to store rows of these columns; a `tallyveil.gate.interface.Receive`."""
        self.columns = tuple(columns)
        self._describe(fields_of(columns) or ())
        return self.extend

    def _describe(self, fields: Fields) -> None:
        self.fields = fields
        self.formats = (int(self.options.binary),) * len(fields)
        self._take(room_of(fields))

    def extend(self, rows: _Rows) -> None:
        """Store rows. Raises TooMuchKept or OutOfMemory."""
        self._take(sum(map(size_of, rows)) + _POINTER * len(rows))
        self._rows += rows

    def relay(self, rows: PendingRows) -> None:
        """Store the catalogs' rows, one by one, as they are encoded."""
        self.relayed = True
        self._describe(rows.fields or ())
        while (one := next(rows.take(1), None)) is not None:
            self.extend([one[1]])

    def _take(self, size: int) -> None:
        self._holding.take(size)
        self._size += size

    def drop(self) -> None:
        """Release the rows and their memory."""
        self._holding.give(self._size)
        self._size, self._rows = 0, []

    def fetch(self, move: Move) -> _Rows:
        """Move the cursor. Returns the rows that it passes or, for an absolute or relative
        position, the row there.

        Raises PortalCannotRun for a move backward of a NO SCROLL cursor, and for every move after
        such an error.
        """
        if self._failed:
            raise PortalCannotRun(f'portal "{self._name}" cannot be run')
        self._failed = True
        found = self._move(move)
        self._failed = False
        return found

    def _move(self, move: Move) -> _Rows:
        count, end = move.count, len(self._rows) + 1
        match move.direction:
            case "absolute" if count is not None:
                place = count if count >= 0 else max(end + count, 0)
                return self._jump(place, back=count < 0 or place <= self._place > 0)
            case "relative" if count:
                return self._jump(max(self._place + count, 0), back=count < 0)
        if count == 0:
            return self._fetch_again(move)
        steps = len(self._rows) + 1 if count is None else abs(count)
        if (move.direction == "backward") != (count is not None and count < 0):
            return self._backward(steps)
        start = self._place
        self._place = min(start + steps, end)
        return self._rows[start : start + steps]

    def _backward(self, steps: int) -> _Rows:
        self._need_scroll()
        last = max(self._place - 1, 0)
        self._place = max(self._place - steps, 0)
        return self._rows[max(last - steps, 0) : last][::-1]

    def _jump(self, place: int, *, back: bool) -> _Rows:
        if back:
            self._need_scroll()
        self._place = min(place, len(self._rows) + 1)
        return self._current()

    def _fetch_again(self, move: Move) -> _Rows:
        """The current row again. PostgreSQL moves back and forward for this, so a NO SCROLL cursor
        cannot."""
        here = self._current()
        if move.shown and (here or move.direction == "backward"):
            self._need_scroll()
        return here

    def _current(self) -> _Rows:
        return self._rows[self._place - 1 : self._place] if self._place else []

    def _need_scroll(self) -> None:
        if self.options.scroll is False:
            raise PortalCannotRun(
                "cursor can only scan forward",
                hint="Declare it with SCROLL option to enable backward scan.",
            )
