"""The PostgreSQL wire protocol. This room uses only what the gate's `__init__` and `gate.interface`
offer. Only `inprocess`, the connection without a wire, creates a gate.

::

    server, client_connection, run
                                sockets, the event loop, worker threads     (all the I/O)
      processes/                several processes on one port
      server_state              what the connections of a server share
      client_socket             one socket, with or without TLS
      scheduler, turns          the threads that statements run on, and which of them compute
    conversation                the state machine: messages in, bytes out
      interruption              which call a cancel request stops
    admission/                  who may connect, how many may, over which TLS
    execution/                  statements by both protocols; prepared statements and cursors
    protocol/                   bytes to messages, messages to bytes
    pgtypes/                    DuckDB's types as PostgreSQL's, values to bytes and back
    protocol_errors             SQLSTATEs of the protocol
    client_memory               limits on the memory clients occupy
    housekeeping                collects garbage and releases memory between statements
    result_relation             answers of `inprocess` as data frames, and in a notebook

Code that PostgreSQL's protocol requires may live here. What a statement means, what it costs and
why it is refused belongs to the gate.
"""

from __future__ import annotations

from tallyveil.proxy.admission.auth import Authentication, Clientcert, Trust, Users
from tallyveil.proxy.admission.port_listener import InsecureAddress, check_address
from tallyveil.proxy.admission.scram import Verifier
from tallyveil.proxy.admission.server_limits import ServerLimits
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
