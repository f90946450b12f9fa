"""`tallyveil sql`, `explain` and `history --posterior`, which open a gate in this process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from tallyveil.accountant import TableQuote
from tallyveil.cli.error_messages import message_lines
from tallyveil.cli.text import Output, aligned, plain
from tallyveil.errors import FeatureNotSupported
from tallyveil.gate import Gate, GateSession, Result, RowPosterior
from tallyveil.gate.explaining import together
from tallyveil.policy import load_policy
from tallyveil.proxy.inprocess import login_name
from tallyveil.rewriter import Dialect

__all__ = ["ask", "explain", "opened", "posterior"]

_QUANTILES: Final = (0.05, 0.25, 0.5, 0.75, 0.95)


def ask(session: GateSession, query: str) -> Iterator[Output]:
    """Execute the statements of ``query``, and yield each result before the next is executed: its
    columns, types, rows, and notices with all their fields."""
    for statement in session.parse(query):
        if statement.kind != "empty":
            result = session.execute(statement)
            notices = [line for one in result.notices for line in message_lines(one.severity, one)]
            yield Output(_document(result), _lines(result), notices)


def explain(session: GateSession, query: str) -> Iterator[Output]:
    """Yield the lines of EXPLAIN of all statements, and of several the most that they cost
    together."""
    statements = [one for one in session.parse(query) if one.kind != "empty"]
    for other in statements:
        if other.query is None:
            raise FeatureNotSupported(
                f"explain takes queries, not {other.tag}", hint="Options set what a query may cost."
            )
    lines: list[str] = []
    quotes: list[TableQuote] = []
    for statement in statements:
        own, found = session.explain(statement)
        lines += own
        quotes += found
    if len(statements) > 1:
        lines += together(quotes)
    yield Output({"plan": lines}, lines)


@contextmanager
def opened(
    path: Path, dialect: Dialect, analyst: str | None, settings: Mapping[str, str | None]
) -> Iterator[GateSession]:
    """Open a gate and a session with these settings, and close both at the end.

    The session's user is the ``analyst``, by default the operating system's user.
    """
    user = login_name() if analyst is None else analyst
    with (
        closing(Gate(load_policy(path))) as gate,
        closing(gate.session(user, "tallyveil", dialect)) as session,
    ):
        for name, value in settings.items():
            if value is not None:
                session.set(name, value)
        yield session


def _lines(result: Result) -> list[str]:
    if result.columns is None:
        return [result.tag]
    return aligned([column.name for column in result.columns], result.rows)


def _document(result: Result) -> dict[str, Any]:
    columns = result.columns or ()
    return {
        "tag": result.tag,
        "columns": [column.name for column in columns],
        "types": [column.type for column in columns],
        "rows": [[plain(value) for value in row] for row in result.rows],
        "notices": [asdict(notice) for notice in result.notices],
    }


def posterior(path: Path, query: str, confidence: str | None) -> Output:
    """Return, for each group and aggregate of ``query``, the estimate from history, its standard
    deviation, interval and quantiles.

    Nothing is charged. Raises PolicyError, SourceError, and StatementError for a refused query.
    """
    settings = {"dp.confidence": confidence, "dp.source": "history"}
    with opened(path, "postgres", None, settings) as session:
        found = session.posteriors(query)
        level = session.settings.target.confidence
    rows = [_object(one, level) for one in found]
    lines = _estimates(found, rows, level)
    if any(one.known is None for one in found):
        lines.append("NULL: the answers so far do not determine it.")
    return Output(rows, lines)


def _estimates(
    found: Sequence[RowPosterior], rows: Sequence[dict[str, Any]], level: Fraction
) -> list[str]:
    keys = list(found[0].group) if found else []
    named = ["of"] if len({one.answer for one in found}) > 1 else []
    numbers = ("answer", "stddev", "low", "high")
    cells = []
    for one, row in zip(found, rows, strict=True):
        shown = [*map(row.get, numbers), *row["quantiles"].values()]
        cells.append([*map(one.group.get, keys), *map(row.get, named), *map(_shown, shown)])
    columns = (*keys, *named, *numbers, *(f"{p * 100:g} %" for p in _QUANTILES))
    return [*aligned(columns, cells), f"low and high: the interval at {float(level * 100):g} %."]


def _shown(number: float | None) -> float | int | None:
    short = None if number is None else round(number, 2)
    return int(short) if short is not None and short == int(short) else short


def _object(one: RowPosterior, level: Fraction) -> dict[str, Any]:
    known = one.known is not None
    low, high = one.interval(level) if known else (None, None)
    return {
        "group": {name: plain(key) for name, key in one.group.items()},
        "of": one.answer,
        "answer": one.value if known else None,
        "stddev": one.deviation if known else None,
        "confidence": float(level),
        "low": low,
        "high": high,
        "quantiles": {f"{p:g}": one.quantile(p) if known else None for p in _QUANTILES},
    }
