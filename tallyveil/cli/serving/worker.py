"""A worker process of `tallyveil serve --workers N`. The supervisor starts it."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import threading
from typing import Final

import typer

from tallyveil.cli.error_messages import printing_errors

__all__ = ["main"]

GRACE: Final = 4.0
"""Seconds to shut down after the supervisor has ended."""


def main(end: int) -> None:
    """Serve. ``end`` is the socket to the supervisor, and standard input has the job as JSON."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until there is something to reload
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the supervisor gets it, too
    threading.Thread(target=_follow, args=(os.dup(end),), daemon=True).start()
    job = json.load(sys.stdin)
    from tallyveil.cli.serving.serving import serve_as_worker

    try:
        with printing_errors():
            serve_as_worker(job, socket.socket(fileno=end))
    except typer.Exit as refused:
        sys.exit(refused.exit_code)


def _follow(end: int) -> None:
    """End the process after the supervisor has ended, even if it is busy."""
    hung_up = select.poll()
    hung_up.register(end, 0)
    hung_up.poll()
    threading.Event().wait(GRACE)
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]))
