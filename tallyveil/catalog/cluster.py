"""One PostgreSQL in a folder of its own: create it, start it, end it, and remove leftover folders.

Only the user who started it can reach it: it listens on a socket in a folder of that user, and on
no port. The user needs no home directory, but a name, without which initdb fails. If the user is
root, it runs as nobody, since PostgreSQL refuses to run as root.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tallyveil.catalog import launch
from tallyveil.catalog.binaries import Binaries, NoPostgreSQL
from tallyveil.catalog.pool import SUPERUSER

__all__ = ["Cluster", "sweep"]

PREFIX: Final = "tallyveil-catalog-"

START: Final = 60.0
STOP: Final = 1.0
"""Seconds that creating or starting it may take, on a busy machine; and ending it."""

MOST_LINKS: Final = 64
"""The most connections at a time."""

_LONGEST_PATH: Final = 90
"""The most bytes of the folder's path: the path of a socket may have 107."""

_SETTINGS: Final = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": str(MOST_LINKS),
    "fsync": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_worker_processes": "0",
    "max_parallel_workers": "0",
    "jit": "off",
    "shared_buffers": "1MB",
    "work_mem": "1MB",
    "temp_file_limit": "10MB",
    "track_activities": "off",
    "track_counts": "off",
    "log_statement": "none",
    "log_min_messages": "fatal",
    "log_min_error_statement": "panic",
    "timezone": "UTC",
    "default_transaction_read_only": "off",
}
_SINCE_18: Final = {"io_method": "sync"}


class Cluster:
    """A folder, which `make` fills. Raises NoPostgreSQL if no folder can be created.

    Another thread may call `stop`, which ends whatever runs.
    """

    def __init__(self, binaries: Binaries) -> None:
        self._binaries = binaries
        self._process: subprocess.Popen[bytes] | None = None
        self.folder = _folder()
        self._lock = _hold(self.folder)
        self._owner = _owner()
        self.data = self.folder / "data"

    @property
    def socket(self) -> str:
        """The path of the socket that it listens on."""
        return str(self.data / ".s.PGSQL.5432")

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, ready: Iterator[bool]) -> None:
        """Start PostgreSQL, and return once ``ready`` yields True. PostgreSQL ends when the calling
        thread ends. Raises NoPostgreSQL if it does not start in time.
        """
        settings = _SETTINGS | (_SINCE_18 if self._binaries.major >= 18 else {})
        given = {**settings, "unix_socket_directories": str(self.data)}
        options = [part for k, v in given.items() for part in ("-c", f"{k}={v}")]
        with contextlib.suppress(FileNotFoundError):
            (self.data / "postmaster.pid").unlink()
        self._launch(str(self._binaries.postgres), "-D", str(self.data), *options)
        until = time.monotonic() + START
        for answers in ready:
            if answers:
                return
            if not self.running or time.monotonic() > until:
                break
            time.sleep(0.01)
        self.stop()
        raise NoPostgreSQL(self._log().rpartition("\n")[2] or "PostgreSQL does not start")

    def stop(self) -> None:
        """End PostgreSQL without waiting for its clients, and wait until it has ended."""
        if self._process is None or self._process.poll() is not None:
            return
        for number in (signal.SIGQUIT, signal.SIGKILL):  # there are no data to lose
            with contextlib.suppress(OSError):
                self._process.send_signal(number)
            try:
                self._process.wait(STOP)
                break
            except subprocess.TimeoutExpired:
                continue

    def remove(self) -> None:
        """Remove the folder and release its lock."""
        _remove(self.folder)
        os.close(self._lock)

    def make(self) -> None:
        """Create the cluster by initdb. Raises NoPostgreSQL if that fails, and OSError if the
        folder cannot be written."""
        self.data.mkdir(0o700)
        if self._owner is not None:
            self.folder.chmod(0o711)
            os.chown(self.data, *self._owner)
        self._run_initdb()
        # Other processes of the user nobody could reach the socket, but only root may connect.
        if self._owner is not None:
            name = pwd.getpwuid(os.geteuid()).pw_name
            (self.data / "pg_hba.conf").write_text("local all all peer map=owner\n")
            (self.data / "pg_ident.conf").write_text(f'owner "{name}" all\n')

    def _run_initdb(self) -> None:
        program = self._binaries.initdb
        options = ["-D", str(self.data), "-U", SUPERUSER, "--auth=trust", "--no-sync"]
        options += ["--no-instructions", "--encoding=UTF8", "--no-locale"]
        self._launch(str(program), *options)
        if self._process is not None and self._process.wait(START):
            raise NoPostgreSQL(_why(self._log(), program, self._owner))

    def _launch(self, *command: str) -> None:
        uid, gid = self._owner or ("-", "-")
        own = [sys.executable, "-I", "-S", launch.__file__, str(uid), str(gid), str(os.getpid())]
        with open(self.folder / "log", "wb") as log:
            self._process = subprocess.Popen(
                [*own, *command],
                cwd=self.folder,
                env={"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _log(self) -> str:
        return (self.folder / "log").read_text(errors="replace").strip()


def sweep() -> None:
    """Remove the folders of servers that were killed, and end PostgreSQL if it still runs there."""
    for root in _roots():
        for folder in Path(root).glob(f"{PREFIX}*"):
            with contextlib.suppress(OSError):
                found = folder.lstat()
                if not folder.is_symlink() and found.st_uid == os.geteuid():
                    _sweep(folder)


def _sweep(folder: Path) -> None:
    """Remove a folder unless it is in use. The process that uses it holds its lock until it ends.

    Raises OSError if it is in use.
    """
    lock = os.open(folder / "lock", os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with contextlib.suppress(OSError, ValueError, IndexError):
            pid = int((folder / "data" / "postmaster.pid").read_text().split()[0])
            if _is_ours(pid, folder):
                os.kill(pid, signal.SIGQUIT)
        _remove(folder)
    finally:
        os.close(lock)


def _remove(folder: Path) -> None:
    """Remove a folder, its lock last: if this is interrupted, the next sweep removes the rest."""
    shutil.rmtree(folder / "data", ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


def _is_ours(pid: int, folder: Path) -> bool:
    """Whether the process was started in this folder. Another one may have the id by now."""
    command = ["ps", "-o", "args=", "-p", str(pid)]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        listed = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
        return str(folder) in listed.stdout
    return False


def _folder() -> Path:
    for root in _roots():
        with contextlib.suppress(OSError):
            return Path(tempfile.mkdtemp(prefix=PREFIX, dir=root))
    raise NoPostgreSQL("no folder for temporary files can be written, or its path is too long")


def _roots() -> list[str]:
    roots = dict.fromkeys((os.path.realpath(tempfile.gettempdir()), "/tmp", "/dev/shm"))
    longest = _LONGEST_PATH - len(PREFIX) - 8
    return [root for root in roots if len(os.fsencode(root)) <= longest and _reached(root)]


def _reached(folder: str) -> bool:
    """Whether it is a folder and, if this process is root's, one that every user can reach."""
    if os.geteuid() or not os.path.isdir(folder):
        return os.path.isdir(folder)
    return all(path.stat().st_mode & 0o001 for path in (Path(folder), *Path(folder).parents))


def _hold(folder: Path) -> int:
    """Lock the folder, as in use, until this process ends. Returns the lock's descriptor."""
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def _owner() -> tuple[int, int] | None:
    """The user and group ids that PostgreSQL runs as instead of root; None if this is not root."""
    if os.geteuid():
        return None
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError:
        return 65534, 65534
    return nobody.pw_uid, nobody.pw_gid


def _why(log: str, program: Path, owner: tuple[int, int] | None) -> str:
    """The reason for initdb's failure, from its log."""
    lines = [line for line in log.strip().splitlines() if line.strip()]
    last = lines[-1] if lines else f"{program} failed"
    if "PermissionError" in last and owner is not None:
        return f"started by root, PostgreSQL runs as user {owner[0]}, who may not run {program}"
    if "could not look up effective user" in log:
        return f"the user with id {os.geteuid()} has no name: add a line for it to /etc/passwd"
    return last
