"""Execute statements: by the gate, by the catalogs, or by the wire itself.

Both protocols, simple and extended, execute statements by `statement_handlers.run`, which calls
the methods of `Executor`. Only `Executor.ask` reaches `GateSession.execute`, and so only it can
charge.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from tallyveil.gate import GateSession
from tallyveil.gate.interface import Receive, Result, Statement, StatementDescription, nothing_aside
from tallyveil.proxy.execution.catalog_session import CatalogSession
from tallyveil.proxy.execution.copy_rows import rows_for
from tallyveil.proxy.execution.named_objects import (
    NamedObjects,
    PreparedStatement,
    asks_catalog,
    prepare,
)
from tallyveil.proxy.execution.pending_rows import PendingRows
from tallyveil.proxy.execution.replies import KeptReply, Replies, ReplyKey, asked
from tallyveil.proxy.execution.transaction import DISCARD_ALL, TRANSACTION_KINDS, Transaction
from tallyveil.proxy.interruption import Interruption
from tallyveil.proxy.pgtypes import decode_utf8
from tallyveil.proxy.protocol.backend import parameter_status
from tallyveil.proxy.protocol_errors import ActiveTransaction

__all__ = ["Executor"]

_NOTHING: Final = StatementDescription((), None)
_NOT_DESCRIBED: Final = TRANSACTION_KINDS | {"prepare", "deallocate", "close", "empty"}
_EMPTY: Final = Statement("", "empty", "")


class Executor:
    """One analyst's gate session, with its transaction block and its cancel flag.

    ``latest`` is the SQL that was parsed or run last; ``objects`` holds the connection's prepared
    statements, portals and cursors.
    """

    def __init__(
        self,
        session: GateSession,
        interruption: Interruption,
        objects: NamedObjects,
        replies: Replies,
        catalog: CatalogSession | None = None,
    ) -> None:
        self.transaction = Transaction(objects.holding)
        self.session = session
        self.objects = objects
        self.latest = ""
        self._settings = session.settings
        self._interruption = interruption
        self._replies = replies
        self._catalog = catalog
        self._takes_catalog = nothing_aside if catalog is None else catalog.takes
        self._reported: dict[str, str] = {}
        self._changed = True
        # A snapshot of the settings from before the transaction changed any.
        self._settings_before: object | None = None

    def repeated(self, statement: Hashable) -> tuple[ReplyKey | None, KeptReply | None]:
        """The key of this statement's reply, and the cached reply if it is still valid. Either may
        be None. Never blocks."""
        question = asked(self.session, statement)
        reply = None if question is None else self._replies.find(question)
        if reply is not None:
            self.latest = reply.statement
        return question, reply

    def keep(
        self,
        question: ReplyKey | None,
        statement: Hashable,
        before: bytes,
        rows: PendingRows,
        after: bytes,
        result: Result,
    ) -> None:
        """Cache the reply to a question that `repeated` returned, if its rows are few."""
        if question is None or not result.repeatable:
            return
        messages = rows.all()
        if messages is not None:
            reply = KeptReply(before + messages + after, rows.fields, result, self.latest)
            self._replies.keep(question, asked(self.session, statement), reply)

    def described_before(self, sql: bytes, oids: tuple[int, ...]) -> PreparedStatement | None:
        """The cached description of a query, or None. Never blocks."""
        prepared = self._replies.prepared.find(self._prepared_as(sql, oids))
        if prepared is not None:
            self.latest = prepared.statement.sql
        return prepared

    def keep_described(
        self, sql: bytes, oids: tuple[int, ...], prepared: PreparedStatement
    ) -> None:
        """Cache the description of a query."""
        key = self._prepared_as(sql, oids)
        if prepared.statement.kind == "select" and key is not None:
            self._replies.prepared.put(key, prepared)

    def _prepared_as(self, sql: bytes, oids: tuple[int, ...]) -> Hashable | None:
        standing = self.session.standing()
        return None if standing is None else (standing[0], sql, oids)

    def parse(self, sql: bytes) -> tuple[Statement, ...]:
        """Split the text into its statements; a single one of kind ``empty`` if it has none."""
        self.latest = text = decode_utf8(sql)
        with self._running():
            statements = self.session.parse(text, self._takes_catalog)
        kept = tuple(s for s in statements if s.kind != "empty")
        return kept or statements[:1] or (_EMPTY,)

    def prepare(self, statement: Statement, declared: tuple[int, ...]) -> PreparedStatement:
        """Describe a statement, without storing it under a name. ``declared`` are the OIDs of its
        parameters' types; 0 is to be inferred."""
        if statement.kind in ("fetch", "execute"):
            return PreparedStatement(statement, (), 0, (), self.objects.fields_of(statement))
        if statement.kind in ("catalog", "declare") and asks_catalog(statement):
            oids, fields = self.catalog.describe(statement.inner or statement, declared)
            shown = None if statement.inner else fields
            return PreparedStatement(statement, oids, len(oids), (), shown)
        return prepare(self._describe, statement, declared)

    def _describe(self, statement: Statement, types: Sequence[str | None]) -> StatementDescription:
        if statement.kind in _NOT_DESCRIBED:
            return _NOTHING
        with self._running():
            return self.session.describe(statement, types)

    @contextmanager
    def _running(self) -> Iterator[None]:
        """The context of one call to the gate, which a cancel stops."""
        with self._interruption.running(), self.session.limited(self._interruption.cancelled):
            yield

    @property
    def catalog(self) -> CatalogSession:
        """The access to the catalogs, which exists if any statement is of kind ``catalog``."""
        if self._catalog is None:
            raise ValueError("there is no catalog to query")
        return self._catalog

    def rows_for(self, statement: Statement) -> PendingRows:
        """The object that collects the rows of a statement of the simple protocol."""
        cursor = self.objects.find_portal(statement.target or "") if statement.move else None
        formats = None if cursor is None else cursor.formats
        return rows_for(statement, self.objects.holding, formats)

    def ask(
        self,
        statement: Statement,
        receive: Receive,
        parameters: Sequence[Any] = (),
        types: Sequence[str] = (),
    ) -> Result:
        """Have the session execute the statement. All rows go to ``receive``, also those that the
        session returns with the result."""
        if statement.query is not None and statement.query.assigns:
            self._remember()
            self._settings.begin({})
        with self._running():
            result = self.session.execute(
                statement, parameters, parameter_types=types, receive=receive
            )
        if result.rows and result.columns is not None:
            receive(result.columns)(list(result.rows))
        return replace(result, rows=())

    def set(self, statement: Statement, receive: Receive) -> Result:
        """Execute SET, RESET, or DISCARD ALL."""
        block = self.transaction.open or self.transaction.implicit
        if statement.tag == DISCARD_ALL:
            if block:
                raise ActiveTransaction("DISCARD ALL cannot run inside a transaction block")
            self.objects.forget()
            self._changed = True
            return self.ask(statement, receive)
        self._remember()
        if block:
            self._settings.begin({})
        result = self.ask(statement, receive)
        if statement.change is not None and statement.change.local and not block:
            # SET LOCAL outside a block: after the warning it is valid until Sync, since a pipeline
            # is a transaction, too.
            self._settings.begin({})
            self.ask(statement, receive)
        return result

    # The transaction

    def begin_implicit(self) -> None:
        """Begin the implicit transaction of several statements in one message."""
        if not self.transaction.open:
            self.transaction.implicit = True

    def fail(self) -> None:
        """Handle an error: undo the settings changed since the last savepoint or, without a
        savepoint, since the transaction began."""
        if not self.transaction.open:
            self.end(committed=False)
            return
        self.transaction.fail()
        self._changed = True
        latest = self.transaction.settings
        self._settings.restore(self._settings_before if latest is None else latest)

    def end(self, *, committed: bool) -> None:
        """End the transaction, explicit or implicit."""
        self.transaction.implicit = False
        self.objects.end_transaction(committed=committed)
        if self._settings_before is None:
            return
        if not committed:
            self._settings.restore(self._settings_before)
        self._settings.end()
        self._changed, self._settings_before = True, None

    def _remember(self) -> None:
        """Take a snapshot of the settings, unless the transaction has one already."""
        self._changed = True
        if self._settings_before is None:
            self._settings_before = self._settings.snapshot()

    def transact(self, statement: Statement) -> Result:
        """Execute a statement about the transaction, and apply it to settings and cursors."""
        sound = self.transaction.sound
        result = self.transaction.run(statement, self._settings.snapshot)
        match statement.kind:
            case "begin":
                self._remember()
                change = statement.change
                self._settings.begin({} if change is None else change.block or {})
            case "commit" | "rollback":
                self.end(committed=sound and statement.kind == "commit")
            case "rollback_to":
                self._settings.restore(self.transaction.settings)
                self._changed = True
                self.objects.return_to(self.transaction.depth)
            case _:
                self.objects.release(self.transaction.depth)
        return replace(result, notices=self._settings.wanted(result.notices))

    def changes(self) -> bytes:
        """A ParameterStatus for each setting that differs from the last one sent to the client."""
        if not self._changed:
            return b""
        self._changed = False
        current = self._settings.reportable()
        changed = {k: v for k, v in current.items() if self._reported.get(k) != v}
        self._reported = current
        return b"".join(parameter_status(name, value) for name, value in changed.items())
