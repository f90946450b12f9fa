"""Designs cached on disk, because a large one takes seconds to solve.

A cached design is not trusted: `CountMatrix` proves its privacy again and `design` its properties,
so a file that is damaged or tampered with costs accuracy or time, never privacy. The files hold
public facts only: n, α, the properties and objective asked for, and the matrix.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import platformdirs

from tallyveil.errors import InvalidParameterValue, UnprovenPrivacy
from tallyveil.mechanisms.matrix.count_matrix import CountMatrix

__all__ = ["DesignCache"]

_log = logging.getLogger(__name__)


class DesignCache:
    """A directory with a file for each design, named by a hash of its key.

    ``directory`` defaults to the user's cache directory (XDG on Linux). Several processes can
    share one: a file appears whole or not at all. Since analysts decide how many designs there are,
    the cache keeps the ``size`` designs stored last and drops older ones.
    """

    def __init__(self, directory: str | Path | None = None, *, size: int = 256) -> None:
        chosen = platformdirs.user_cache_path("tallyveil") / "designs"
        self.directory = Path(directory) if directory is not None else chosen
        self._size = size

    def load(self, key: Mapping[str, Any], name: str, alpha: Fraction) -> CountMatrix | None:
        """Return the design stored under ``key``, proved α-DP, or None if there is no valid one."""
        try:
            found = json.loads(self._path(key).read_bytes())
            if found["key"] != dict(key) or found["sha256"] != _digest(found["weights"]):
                return None
            weights = [[int(weight, 16) for weight in column] for column in found["weights"]]
            return CountMatrix(name, alpha, weights)
        except (OSError, UnprovenPrivacy, InvalidParameterValue):
            return None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            # The file holds something other than a design.
            return None

    def store(self, key: Mapping[str, Any], matrix: CountMatrix) -> None:
        """Store the design. If the directory cannot be written, it only logs a warning."""
        weights = [[format(weight, "x") for weight in column] for column in matrix.weights]
        text = json.dumps({"key": dict(key), "sha256": _digest(weights), "weights": weights})
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=self.directory) as beside:
                whole = Path(beside) / "design.json"
                whole.write_text(text)
                os.replace(whole, self._path(key))
            self._drop_oldest()
        except OSError as error:
            _log.warning("could not cache a mechanism's design in %s: %s", self.directory, error)

    def _drop_oldest(self) -> None:
        kept = sorted(self.directory.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
        for path in kept[: -self._size]:
            path.unlink(missing_ok=True)

    def _path(self, key: Mapping[str, Any]) -> Path:
        return self.directory / f"{_digest(dict(key))}.json"


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
