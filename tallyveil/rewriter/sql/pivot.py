"""DuckDB's PIVOT … ON … USING … GROUP BY … as a SELECT of text, which is then parsed as any other.

    PIVOT person ON sex USING count(*) GROUP BY state

    SELECT state, count(*) FILTER (WHERE (sex) = 'F') AS "F", … FROM person GROUP BY state

The keys are those listed after IN, or the declared values: no record decides the columns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Final

import sqlglot
from sqlglot import exp
from sqlglot.tokenizer_core import Token

from tallyveil.errors import FeatureNotSupported, SQLSyntaxError

__all__ = ["Pivot", "depends_on_noise", "read_pivot"]

_CLAUSES: Final = ("ON", "USING", "GROUP BY", "ORDER BY", "LIMIT", "OFFSET")
_PLAIN: Final = re.compile(r"n(\.n)*(\(\))?|\(\)")  # a column, a call, or brackets
_FILTERS: Final = (
    exp.Where, exp.Limit, exp.Offset, exp.Fetch, exp.Qualify, exp.Join, exp.Except, exp.Intersect,
)  # fmt: skip


@dataclass(frozen=True)
class Pivot:
    """``before`` is the WITH clause. ``on`` has each key with its listed values, ``using`` each
    aggregate with its name, ``mentioned`` the columns of both, ``after`` ORDER BY and LIMIT."""

    before: str
    source: str
    on: tuple[tuple[str, tuple[str, ...]], ...]
    using: tuple[tuple[str, str], ...]
    group: str
    after: str
    mentioned: frozenset[str]

    @property
    def stand_in(self) -> str:
        """A query with all parts, to be parsed."""
        items = [text for on, values in self.on for text in (on, *values)]
        items += [aggregate for aggregate, _ in self.using]
        by = f"GROUP BY {self.group}" if self.group else ""
        return f"{self.before} SELECT {', '.join(items)} FROM {self.source} {by} {self.after}"

    @property
    def columns(self) -> str:
        """A query with the columns of the source."""
        return f"{self.before} SELECT * FROM {self.source} LIMIT 0"

    def keys(self, key: str) -> str:
        """A query of the values of a key."""
        return f"{self.before} SELECT DISTINCT {key} AS key FROM {self.source} ORDER BY 1"

    def select(self, keys: Sequence[Sequence[tuple[str, str]]], columns: Sequence[str]) -> str:
        """The statement, for each key's values as constants with their names. Without GROUP BY it
        groups by those ``columns`` of the source that are not mentioned."""
        others = (f'"{name}"' for name in columns if name.lower() not in self.mentioned)
        group = self.group or ", ".join(others)
        items = [group] if group else []
        for chosen in product(*keys):
            pairs = zip(self.on, chosen, strict=True)
            tests = " AND ".join(
                f"({on}) IS NULL" if value.upper() == "NULL" else f"({on}) = {value}"
                for (on, _), (value, _) in pairs
            )
            for aggregate, name in self.using:
                called = "_".join([*(text for _, text in chosen), *([name] if name else [])])
                called = called.replace('"', '""')
                items.append(f'{aggregate} FILTER (WHERE {tests}) AS "{called}"')
        by = f"GROUP BY {group}" if group else ""
        return f"{self.before} SELECT {', '.join(items)} FROM {self.source} {by} {self.after}"


def read_pivot(sql: str, tokens: Sequence[Token]) -> Pivot | None:
    """The parts of a PIVOT statement; None for another one.

    Raises SQLSyntaxError if it has no ON, and FeatureNotSupported for clauses in another order.
    """
    words = [(_word(sql, tokens[number]), number) for number in _outer(tokens)]
    first = next((number for word, number in words if word == "PIVOT"), None)
    if first is None or (first and (words[0][0], tokens[first - 1].text) != ("WITH", ")")):
        return None
    found = [(word, number) for word, number in words if number > first and word in _CLAUSES]
    starts = [("PIVOT", first), *found, ("", len(tokens))]
    order = [_CLAUSES.index(name) for name, _ in starts[1:-1]]
    if order[:1] != [0]:
        raise SQLSyntaxError("PIVOT needs ON", position=tokens[first].start + 1)
    if sorted(set(order)) != order:
        raise FeatureNotSupported("clauses of PIVOT in this order are not answered")
    parts = {a: tokens[n + 1 : m] for (a, n), (_, m) in pairwise(starts)}

    def text(part: Sequence[Token]) -> str:
        return sql[part[0].start : part[-1].end + 1] if part else ""

    on = []
    for key in _listed(parts["ON"]):
        at = next((n for n in _outer(key) if _word(sql, key[n]) == "IN"), len(key))
        values = _listed(key[at + 2 : -1]) if at < len(key) else []
        kinds = "".join(
            one if one in ".()" else "n" for one in (key[n].text for n in _outer(key[:at]))
        )
        if values and not _PLAIN.fullmatch(kinds):  # IN would be an operator of the key
            raise FeatureNotSupported(
                "an expression before IN is not answered without brackets",
                hint="Write ON (age < 40) IN (true, false).",
                position=key[0].start + 1,
            )
        on.append((text(key[:at]), tuple(map(text, values))))
    aggregates = _listed(parts.get("USING", ()))
    using = []
    for aggregate in aggregates:
        last = max((n for n, token in enumerate(aggregate) if token.text == ")"), default=-1)
        name = aggregate[-1].text if last + 1 < len(aggregate) else ""
        written = text(aggregate[: last + 1])
        several = written.lower().replace("(*)", "_star()") if len(aggregates) > 1 else ""
        using.append((written, name or several))
    tail = [f"{name} {text(part)}" for name, part in parts.items() if name in _CLAUSES[3:]]
    named = {token.text.lower() for name in ("ON", "USING") for token in parts.get(name, ())}
    before, source = text(tokens[:first]), text(parts["PIVOT"])
    group, using = text(parts.get("GROUP BY", ())), using or [("count(*)", "")]
    return Pivot(before, source, tuple(on), tuple(using), group, " ".join(tail), frozenset(named))


def _word(sql: str, token: Token) -> str:
    return "" if sql[token.start] in "'\"" else token.text.upper()


def _outer(tokens: Sequence[Token]) -> list[int]:
    """The numbers of the tokens outside brackets."""
    found, depth = [], 0
    for number, token in enumerate(tokens):
        depth -= token.text in (")", "]")
        if not depth:
            found.append(number)
        depth += token.text in ("(", "[")
    return found


def _listed(tokens: Sequence[Token]) -> list[Sequence[Token]]:
    """The items that commas outside brackets separate."""
    commas = [n for n in _outer(tokens) if tokens[n].text == ","]
    ends = [-1, *commas, len(tokens)]
    return [tokens[a + 1 : b] for a, b in pairwise(ends)] if tokens else []


def depends_on_noise(sql: str) -> bool:
    """Whether a plan's SQL may leave out noisy rows."""
    return sqlglot.parse_one(sql, dialect="duckdb").find(*_FILTERS) is not None
