"""The PostgreSQL wire, and nothing behind it: the gate is known by what its `__init__` offers and
by `gate.interface`. Only `inprocess`, the connection without a wire, makes a gate.

::

    server, connection, run     sockets, the event loop, worker threads     (all the I/O)
      processes/                several processes on one port
      line                      one socket: clear bytes, whether TLS carries them or not
      scheduler, turns          the threads that statements run on, and whose turn it is
    conversation                the state machine: messages in, bytes out
      interruption              which call a cancel request hits
    admission/                  who connects, how many may, over which TLS
    execution/                  what is asked, by both protocols, and what is kept by name
    protocol/                   bytes to messages, messages to bytes
    pgtypes/                    DuckDB's types as PostgreSQL's, values to bytes and back
    errors, memory              SQLSTATEs only the wire knows; the bytes that clients make it keep
    housekeeping                garbage collected, and memory given back, between statements
    relation                    answers of `inprocess` as data frames, and in a notebook

What may live here is what PostgreSQL's protocol asks for. What a statement means, costs or is
refused for belongs to the gate.
"""

from __future__ import annotations

from tallyveil.proxy.admission.auth import Authentication, Clientcert, Trust, Users
from tallyveil.proxy.admission.entrance import InsecureAddress, check_address
from tallyveil.proxy.admission.limits import ServerLimits
from tallyveil.proxy.admission.scram import Verifier
from tallyveil.proxy.admission.tls import Tls, self_sign
from tallyveil.proxy.run import ServerThread, leave, run
from tallyveil.proxy.server import Server, SessionFactory

__all__ = [
    "Authentication",
    "Clientcert",
    "InsecureAddress",
    "Server",
    "ServerLimits",
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
