"""Several processes that serve one port and one ledger.

::

    supervisor    starts the workers, takes clients in, counts them, hands their sockets on
    assigned      the entrance of a worker: the sockets it was handed
    link          messages between the two, some with a socket

The supervisor accepts, rather than each worker on a socket that all share, because only then
somebody knows how many clients each has: the next goes to the one with fewest, whichever is busy,
so that nobody waits behind another's heavy statement by the luck of a hash; limits of connections
are exact; a socket that nobody has taken yet is not lost with a worker that dies; and a port that
is taken is an error. It reads nothing of what clients send and has no data: each worker opens the
policy's source and ledger for itself, and the ledger orders them.
"""

from __future__ import annotations

from tallyveil.proxy.processes.assigned import Assigned
from tallyveil.proxy.processes.supervisor import WorkerFailed, WorkerSupervisor

__all__ = ["Assigned", "WorkerFailed", "WorkerSupervisor"]
