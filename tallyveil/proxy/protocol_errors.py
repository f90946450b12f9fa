"""Errors of the wire protocol: of its states, and of values that arrive as bytes.

An error below `ConnectionRefused` ends the connection; all others concern one statement.
"""

from __future__ import annotations

from tallyveil.errors import StatementError, TallyveilError

__all__ = [
    "ActiveTransaction",
    "AdminShutdown",
    "BadMessage",
    "ConnectionFailure",
    "ConnectionRefused",
    "DuplicatePortal",
    "DuplicatePreparedStatement",
    "IdleTimeout",
    "InvalidAuthorization",
    "InvalidBinaryRepresentation",
    "InvalidPassword",
    "NoActiveTransaction",
    "OutOfMemory",
    "PortalCannotRun",
    "ProtocolViolation",
    "TooManyConnections",
    "TooManyPrepared",
    "TooMuchKept",
    "UndefinedPortal",
    "UndefinedPreparedStatement",
    "UndefinedSavepoint",
    "UnsupportedProtocol",
]


class ConnectionRefused(TallyveilError, sqlstate="08004"):
    """The connection cannot go on. The client is sent this error once, then it is closed."""


class ProtocolViolation(ConnectionRefused, sqlstate="08P01"):
    """The bytes are not a valid PostgreSQL message."""


class UnsupportedProtocol(ConnectionRefused, sqlstate="0A000"): ...


class InvalidAuthorization(ConnectionRefused, sqlstate="28000"): ...


class InvalidPassword(ConnectionRefused, sqlstate="28P01"): ...


class TooManyConnections(ConnectionRefused, sqlstate="53300"): ...


class ConnectionFailure(ConnectionRefused, sqlstate="08006"): ...


class IdleTimeout(ConnectionRefused, sqlstate="57P05"): ...


class AdminShutdown(ConnectionRefused, sqlstate="57P01"): ...


class BadMessage(StatementError, sqlstate="08P01"):
    """A message does not match its statement."""


class DuplicatePreparedStatement(StatementError, sqlstate="42P05"): ...


class DuplicatePortal(StatementError, sqlstate="42P03"): ...


class UndefinedPreparedStatement(StatementError, sqlstate="26000"): ...


class UndefinedPortal(StatementError, sqlstate="34000"): ...


class PortalCannotRun(StatementError, sqlstate="55000"): ...


class TooManyPrepared(StatementError, sqlstate="54000"): ...


class TooMuchKept(StatementError, sqlstate="54000"): ...


class OutOfMemory(StatementError, sqlstate="53200"): ...


class NoActiveTransaction(StatementError, sqlstate="25P01"): ...


class ActiveTransaction(StatementError, sqlstate="25001"): ...


class UndefinedSavepoint(StatementError, sqlstate="3B001"): ...


class InvalidBinaryRepresentation(StatementError, sqlstate="22P03"): ...
