"""Several processes that serve one port and one ledger.

::

    supervisor    starts the workers, accepts and counts clients, passes their sockets to workers
    assigned      the entrance of a worker: the sockets that it was passed
    link          messages between the two, some with a socket

The supervisor accepts all clients; the workers do not share a listening socket. So the supervisor
knows how many clients each worker has, with these effects:

- the next client goes to the worker with fewest, so that no client waits behind another's heavy
  statement because of the luck of a hash;
- limits on connections are exact;
- a socket that was not accepted yet is not lost with a worker that dies;
- a port in use is an error.

The supervisor reads nothing that clients send and has no data. Each worker opens the policy's
source and ledger itself, and the ledger orders the workers' transactions.
"""

from __future__ import annotations

from tallyveil.proxy.processes.assigned import Assigned
from tallyveil.proxy.processes.supervisor import WorkerFailed, WorkerSupervisor

__all__ = ["Assigned", "WorkerFailed", "WorkerSupervisor"]
