"""The examples of a Markdown file, and the shape of their output.

An example is a fenced block of sql, python or shell. Where a block of ``output`` follows, that is
what it must print, but for the numbers: every number stands for any number, spaces and the width
of rules do not count, and a line … stands for any lines.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Example", "examples", "same_shape"]

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$\n?(\s*)", re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")


@dataclass(frozen=True)
class Example:
    place: str
    language: str
    code: str
    output: str | None


def examples(path: Path) -> list[Example]:
    """In the file's order. An output block without an example before it is an error."""
    text = path.read_text(encoding="utf-8")
    found: list[Example] = []
    open_end = -1
    for fence in _FENCE.finditer(text):
        language, body = fence[1], fence[2]
        if language == "output":
            if fence.start() != open_end:
                raise ValueError(f"{path}: an output block follows no example:\n{body}")
            last = found.pop()
            found.append(Example(last.place, last.language, last.code, body))
        elif language in ("sql", "python", "shell", "toml"):
            line = text.count("\n", 0, fence.start()) + 1
            found.append(Example(f"{path.name}:{line}", language, body, None))
            open_end = fence.end()
    return found


def same_shape(expected: str, printed: str) -> bool:
    pattern = "".join(
        r"(?:.*\n)*?" if line == "…" else re.escape(line) + r"\n" for line in _shape(expected)
    )
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in _shape(printed))) is not None


def _shape(text: str) -> list[str]:
    lines = []
    for line in text.strip().splitlines():
        bare = re.sub(r"-[-+]+", "-", line) if set(line) <= set(" -+") else _NUMBER.sub("#", line)
        lines.append(" ".join(bare.split()))
    return lines
