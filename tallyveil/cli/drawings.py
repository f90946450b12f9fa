"""Which files can be drawn into, known before anything is worked out for a drawing."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tallyveil.errors import OutputError

__all__ = ["check_drawing"]

_FORMATS: Final = (".png", ".svg", ".pdf")


def check_drawing(path: Path) -> None:
    """Raises OutputError for an ending that names no kind of drawing."""
    if path.suffix not in _FORMATS:
        raise OutputError(f"{path} is no drawing", hint=f"End it in {' or '.join(_FORMATS)}.")
