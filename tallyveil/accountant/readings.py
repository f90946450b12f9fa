"""The odometer: for each charge what its table has spent after it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

__all__ = ["Readings"]

_ARRAYS: Final = ("charges", "spent", "exact")
_LIMIT: Final = 1 << 63


class Readings:
    """By number of a charge what its table has spent after it, in 10⁻¹² of its measure, and whether
    that is exact. The readings it starts with stay in arrays, which take less time and memory."""

    def __init__(self, written: Mapping[str, npt.NDArray[Any]] | None = None) -> None:
        """Start with what `written` returned."""
        self._first = written
        self._later: dict[int, tuple[int, bool]] = {}

    def __len__(self) -> int:
        return len(self._later) + (0 if self._first is None else len(self._first["charges"]))

    def copy(self) -> Readings:
        """A copy, which takes little time."""
        result = Readings(self._first)
        result._later = self._later.copy()
        return result

    def add(self, charge_id: int, spent: int, exact: bool) -> None:
        self._later[charge_id] = spent, exact

    def every(self) -> dict[int, tuple[int, bool]]:
        """All readings, by number of the charge."""
        if self._first is None:
            return dict(self._later)
        charges, spent, exact = (self._first[name].tolist() for name in _ARRAYS)
        return dict(zip(charges, zip(spent, exact, strict=True), strict=True)) | self._later

    def written(self) -> Mapping[str, npt.NDArray[Any]] | None:
        """All readings as arrays; None if one does not fit in 64 bits."""
        spent = [one for one, _ in self._later.values()]
        if max(spent, default=0) >= _LIMIT:
            return None
        later = {
            "charges": np.array(list(self._later), dtype=np.int64),
            "spent": np.array(spent, dtype=np.int64),
            "exact": np.array([one for _, one in self._later.values()], dtype=np.bool_),
        }
        if self._first is None:
            return later
        return {name: np.concatenate([self._first[name], later[name]]) for name in _ARRAYS}
