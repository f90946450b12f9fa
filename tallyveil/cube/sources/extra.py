"""Libraries that only some sources need."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from tallyveil.errors import SourceError

__all__ = ["imported"]


def imported(module: str, key: str, extra: str = "lake") -> ModuleType:
    """The module. Raises SourceError where its library is not installed."""
    try:
        return import_module(module)
    except ImportError:
        raise SourceError(
            f"{key}: this source needs the library {module.partition('.')[0]}, which is not"
            " installed",
            hint=f"pip install 'tallyveil[{extra}]'",
        ) from None
