"""The array types that the rooms share."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["BoolArray", "CodeArray", "FloatArray", "IntArray"]

BoolArray: TypeAlias = npt.NDArray[np.bool_]
CodeArray: TypeAlias = npt.NDArray[np.integer[Any]]
"""Numbers of cells, in as few bytes as they need."""
FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
