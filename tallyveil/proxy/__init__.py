"""The PostgreSQL wire, and nothing behind it: but for `inprocess`, the connection without a wire,
the gate is known by `gate.interface` alone.

::

    server, connection, run     sockets, the event loop, worker threads     (all the I/O)
      entrance                  where clients come in, and how many may
      processes                 several processes on one port
      line, tls                 one socket: clear bytes, whether TLS carries them or not
    conversation                the state machine: messages in, bytes out
      login                     who connects, with which settings
        auth, scram             who may, and the proof of a password
      simple, extended          its two ways to have statements run
        rows, copying           pages of rows, COPY
      kept, cursors             prepared statements, portals and cursors, by name
      executor, transaction     what a statement does, and to the transaction block
        statements              PREPARE and EXECUTE, DECLARE, FETCH and CLOSE
        inquiry                 questions about the catalogs, which the gate does not answer
      interruption              which call a cancel request hits
    codec, messages, body       bytes to messages
    backend                     messages to bytes
    pgtypes                     DuckDB's types as PostgreSQL's, values to bytes and back
    errors, limits              SQLSTATEs only the wire knows; what a client may take

What may live here is what PostgreSQL's protocol asks for. What a statement means, costs or is
refused for belongs to the gate.
"""

from __future__ import annotations

from tallyveil.proxy.auth import Authentication, Clientcert, Trust, Users
from tallyveil.proxy.entrance import InsecureAddress, check_address
from tallyveil.proxy.limits import Limits
from tallyveil.proxy.run import ServerThread, leave, run
from tallyveil.proxy.scram import Verifier
from tallyveil.proxy.server import Server, SessionFactory
from tallyveil.proxy.tls import Tls, self_sign

__all__ = [
    "Authentication",
    "Clientcert",
    "InsecureAddress",
    "Limits",
    "Server",
    "ServerThread",
    "SessionFactory",
    "Tls",
    "Trust",
    "Users",
    "Verifier",
    "check_address",
    "leave",
    "run",
    "self_sign",
]
