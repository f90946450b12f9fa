"""Statements to results: the gate's, and those the wire answers by itself.

Simple and extended protocol meet here. Only `Executor.run` reaches `Session.execute`, and so
only it can spend budget.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, Final

from tallyveil.gate.interface import Description, Result, Session, Statement
from tallyveil.proxy.backend import parameter_status
from tallyveil.proxy.interruption import Interruption
from tallyveil.proxy.pgtypes import decode_utf8
from tallyveil.proxy.replies import Asked, Replies, Reply, asked
from tallyveil.proxy.rows import Rows
from tallyveil.proxy.transaction import TRANSACTION_KINDS, Transaction

__all__ = ["Executor"]

_NOTHING: Final = Description((), None)
_EMPTY: Final = Statement("", "empty", "")


class Executor:
    """One analyst's gate session, with the transaction block and the cancel flag around it.

    ``latest`` is the SQL that was parsed or run last. ``deallocate`` drops the prepared statement
    of that name, or for None all of them.
    """

    def __init__(
        self,
        session: Session,
        interruption: Interruption,
        deallocate: Callable[[str | None], None],
        replies: Replies,
    ) -> None:
        self.transaction = Transaction()
        self.session = session
        self.latest = ""
        self._interruption = interruption
        self._deallocate = deallocate
        self._replies = replies
        self._reported: dict[str, str] = {}

    def repeated(self, statement: Hashable) -> tuple[Asked | None, Reply | None]:
        """What was answered to this before and still holds. Waits for nobody."""
        question = asked(self.session, statement)
        reply = None if question is None else self._replies.find(question)
        if reply is not None:
            self.latest = reply.statement
        return question, reply

    def keep(self, question: Asked | None, statement: Hashable, reply: Reply) -> None:
        """Keep what was answered to a question that `repeated` gave."""
        if question is not None and reply.result.repeatable:
            self._replies.keep(question, asked(self.session, statement), reply)

    def parse(self, sql: bytes) -> tuple[Statement, ...]:
        """At least one statement; the only one is of kind ``empty`` if there is none."""
        self.latest = text = decode_utf8(sql)
        with self._interruption.running(self.session.interrupt):
            statements = self.session.parse(text)
        kept = tuple(s for s in statements if s.kind != "empty")
        return kept or statements[:1] or (_EMPTY,)

    def describe(self, statement: Statement, types: Sequence[str | None]) -> Description:
        if statement.kind in TRANSACTION_KINDS or statement.kind in ("deallocate", "empty"):
            return _NOTHING
        with self._interruption.running(self.session.interrupt):
            return self.session.describe(statement, types)

    def run(
        self,
        statement: Statement,
        rows: Rows,
        parameters: Sequence[Any] = (),
        types: Sequence[str] = (),
    ) -> Result:
        """``rows`` take those of the result, which has none then; they are dropped if it fails."""
        self.latest = statement.sql
        try:
            result = self._run(statement, rows, parameters, types)
            if result.columns is not None:
                if rows.fields is None:
                    rows.begin(result.columns)
                rows.extend(result.rows)
        except BaseException:
            rows.drop()
            raise
        return replace(result, rows=())

    def _run(
        self, statement: Statement, rows: Rows, parameters: Sequence[Any], types: Sequence[str]
    ) -> Result:
        self.transaction.check(statement)
        if statement.kind in TRANSACTION_KINDS:
            return self._transact(statement)
        if statement.kind == "deallocate":
            self._deallocate(statement.target)
            everything = statement.target is None
            return Result(None, (), "DEALLOCATE ALL" if everything else "DEALLOCATE")
        with self._interruption.running(self.session.interrupt):
            result = self.session.execute(
                statement.inner or statement,
                parameters,
                parameter_types=types,
                cancelled=self._interruption.cancelled,
                receive=rows.begin,
            )
        if statement.kind == "copy":
            return replace(result, tag=result.tag.replace("SELECT", "COPY", 1))
        if statement.tag == "DISCARD ALL":
            self._deallocate(None)
        return result

    def _transact(self, statement: Statement) -> Result:
        """The block begins or ends; the session is told, whose settings have a part of it."""
        result = self.transaction.run(statement)
        if statement.kind in ("begin", "commit", "rollback"):
            self.session.execute(statement)
        return replace(result, notices=tuple(n for n in result.notices if self.session.hears(n)))

    def changes(self, statement: Statement | None = None) -> bytes:
        """ParameterStatus for each reported setting that is not what the client was last told."""
        if statement is not None and statement.kind != "set":
            return b""
        current = self.session.reportable()
        changed = {k: v for k, v in current.items() if self._reported.get(k) != v}
        self._reported = current
        return b"".join(parameter_status(name, value) for name, value in changed.items())
