"""Linear algebra in one thread.

The libraries are looked up when this is imported, which takes some milliseconds, so that no
statement has to wait for it.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Final

import scipy.linalg  # noqa: F401  (brings a library of its own)
from threadpoolctl import ThreadpoolController

__all__ = ["one_thread"]

_BLAS: Final = ThreadpoolController().select(user_api="blas")


def one_thread() -> AbstractContextManager[object]:
    """A context in which linear algebra runs in the calling thread only."""
    limited: AbstractContextManager[object] = _BLAS.limit(limits=1)
    return limited
