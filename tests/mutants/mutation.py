"""A fault that is put into the package on purpose, to see whether the tests find it."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ROOT", "Mutation", "chosen_faults", "room_of"]

ROOT = Path(__file__).parents[2]
_FAULTS = Path(__file__).with_name("faults.toml")


@dataclass(frozen=True)
class Mutation:
    """``old`` becomes ``new`` where it stands in the file at ``path``, relative to the root, from
    ``start`` on. ``effect`` states in words what then goes wrong: who moves the code states the
    same fault of the code that does its work."""

    name: str
    effect: str
    path: str
    old: str
    new: str
    start: int = 0

    def applied(self, text: str) -> str:
        """The file's text with the fault; ``ValueError`` if ``old`` does not stand there."""
        at = text.find(self.old, self.start)
        if at < 0:
            raise ValueError(f"{self.path} has no {self.old!r}")
        return text[:at] + self.new + text[at + len(self.old) :]


def room_of(path: str) -> str:
    """The folder of the package that a file is in, at any depth; the package for those beside."""
    parts = Path(path).parts
    return parts[1] if len(parts) > 2 else parts[0]


def chosen_faults() -> list[Mutation]:
    """Those of `faults.toml`, which were chosen since they matter."""
    with _FAULTS.open("rb") as file:
        return [Mutation(**fault) for fault in tomllib.load(file)["fault"]]
