"""Scenarios as text: sessions that an analyst could have typed, and what they are to show.

A file is a list of scenarios. Each begins with its title, ``--- Title.``; lines ``--@`` below it
declare the policy in TOML, as those above the first title do for all of them:

    --- A repeated count is free.
    --@ budget.epsilon = 0.25

    SELECT count(*) FROM person WHERE age < 30;
     1140
     SPENT 0.1

A statement ends with a semicolon at the end of a line. What is expected of it follows, each line
indented by one space; what is not expected is not compared:

    1140 | NULL         a row; they are compared in order after ORDER BY, EXPLAIN and SHOW
    (no rows)
    ERROR 42P01: …      an error, below it DETAIL: and HINT:; it costs nothing unless SPENT says so
    NOTICE: …           a notice, or WARNING:; all of them, once there is one
    NOTICE: none
    SPENT 0.1           the charges so far to the (first) table; SPENT visit 0.1 to another
    FREE                no charge for this statement

A caret stands under the place in a statement at which an error points. ``…`` is any text, and as a
row any rows. A number with a point may be off by less than one in its last digit. Commands begin
with a backslash:

    \\connect bob        go on as this user; "\\connect bob 2" is a second session of his
    \\restart            close everything and open it anew, with the declarations that follow
    \\bind [30, "F"]     the parameters of the next statement
    \\set both SELECT …  :both stands for the rest of the line from here on, and for indented lines
                        below it; above the first title for all scenarios
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Problem", "Scenario", "Step", "read"]

_CARET = re.compile(r" *\^")
_SET = re.compile(r"\\set (\w+) (.*)")
_VARIABLE = re.compile(r"(?<!:):(\w+)")
_PROBLEM = re.compile(r"(ERROR|NOTICE|WARNING|INFO)(?: (\w{5}))?: (.*)", re.DOTALL)
_SPENT = re.compile(r"SPENT (?:(\w+) )?([\d.e-]+)")


@dataclass
class Problem:
    """An error or a notice: what is said, and what stands beside it."""

    severity: str
    message: str
    sqlstate: str | None = None
    detail: str | None = None
    hint: str | None = None
    position: int | None = None


@dataclass
class Step:
    """A statement or a command, from ``line`` of the file on, and what is expected of it. ``spent``
    is a table, or "", and a sum."""

    line: int
    text: str
    caret: int | None = None
    rows: list[str] | None = None
    error: Problem | None = None
    notices: list[Problem] | None = None
    spent: tuple[str, str] | None = None
    free: bool = False
    declared: dict[str, Any] = field(default_factory=dict)

    def expect(self, text: str) -> None:
        """Raises ValueError for what cannot be expected."""
        last = self.error or (self.notices or [None])[-1]
        if found := _PROBLEM.fullmatch(text):
            problem = Problem(found[1], found[3], found[2])
            if problem.severity == "ERROR":
                self.error = problem
            else:
                none = problem.message == "none"
                self.notices = [*(self.notices or []), *([] if none else [problem])]
        elif text.startswith(("DETAIL: ", "HINT: ")) and last is not None:
            name, _, said = text.partition(": ")
            setattr(last, name.lower(), said)
        elif spent := _SPENT.fullmatch(text):
            self.spent = spent[1] or "", spent[2]
        elif text == "FREE":
            self.free = True
        elif text == "(no rows)":
            self.rows = []
        else:
            self.rows = [*(self.rows or []), text]

    @property
    def ordered(self) -> bool:
        words = self.text.upper()
        return "ORDER BY" in words or words.startswith(("EXPLAIN", "SHOW", "FETCH"))


@dataclass
class Scenario:
    """``declared`` are its keys, those of the file first."""

    title: str
    line: int
    declared: dict[str, Any]
    steps: list[Step]


def read(path: Path) -> Iterator[Scenario]:
    """Raises ValueError for what is no scenario."""
    lines = path.read_text(encoding="utf-8").splitlines()
    starts = [n for n, line in enumerate(lines) if line.startswith("--- ")]
    shared, used = _declared(lines[: starts[0]])
    variables: dict[str, str] = {}
    for _ in _steps(lines, used, starts[0], variables):
        raise ValueError("a statement is in no scenario")
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        declared, used = _declared(lines[start + 1 : end])
        steps = list(_steps(lines, start + 1 + used, end, dict(variables)))
        yield Scenario(lines[start][4:].rstrip("."), start + 1, shared | declared, steps)


def _declared(lines: list[str]) -> tuple[dict[str, Any], int]:
    """The keys in comments at the beginning, and how many lines are comments."""
    used = next((n for n, line in enumerate(lines) if not line.startswith("--")), len(lines))
    toml = [line.removeprefix("--@") for line in lines[:used] if line.startswith("--@")]
    return tomllib.loads("\n".join(toml)), used


def _steps(lines: list[str], start: int, end: int, variables: dict[str, str]) -> Iterator[Step]:
    number, step = start, None
    while number < end:
        line = lines[number]
        if not line or line.startswith("--"):
            number += 1
        elif found := _SET.fullmatch(line):
            text, number = found[2], number + 1
            while number < end and lines[number].startswith("    "):
                text, number = f"{text}\n{lines[number]}", number + 1
            variables[found[1]] = _substituted(text, variables)
        elif line.startswith("\\"):
            declared, used = _declared(lines[number + 1 : end])
            step = Step(number + 1, line, declared=declared)
            yield step
            number += 1 + used
        elif line.startswith(" "):
            if step is None:
                raise ValueError(f"line {number + 1} is expected of no statement")
            step.expect(line[1:])
            number += 1
        else:
            step, number = _statement(lines, number, end)
            step.text = _substituted(step.text, variables)
            yield step


def _substituted(text: str, variables: dict[str, str]) -> str:
    return _VARIABLE.sub(lambda found: variables.get(found[1], found[0]), text)


def _statement(lines: list[str], start: int, end: int) -> tuple[Step, int]:
    """The statement and the number of the line after it and its caret."""
    text, caret, number, whole = "", None, start, False
    while number < end and (not whole or _CARET.fullmatch(lines[number])):
        if _CARET.fullmatch(lines[number]):
            caret = text.rfind("\n", 0, len(text) - 1) + 1 + len(lines[number])
        else:
            text += lines[number] + "\n"
            whole = lines[number].endswith(";")
        number += 1
    if not whole:
        raise ValueError(f"the statement in line {start + 1} has no end")
    return Step(start + 1, text[:-2], caret), number
