"""Several processes that serve one port and one ledger.

::

    worker_supervisor    opens the port, starts the workers, replaces those that die
    worker_listener      in a worker: accepts clients of that port, and forwards cancel requests

The workers inherit one listening socket, so that a port in use is an error, and a client that was
not accepted yet is not lost with a worker that dies. A worker leaves a client to another that has
fewer. So no client waits behind another's heavy statement while a process has none, and the limits
on connections, whose `admission.connection_slots` all processes share, are exact.

The supervisor reads nothing that clients send and has no data. Each worker opens the policy's
source and ledger itself, and the ledger orders the workers' transactions.
"""

from __future__ import annotations

from tallyveil.proxy.processes.worker_listener import WorkerListener
from tallyveil.proxy.processes.worker_supervisor import WorkerFailed, WorkerSupervisor

__all__ = ["WorkerFailed", "WorkerListener", "WorkerSupervisor"]
