"""`tallyveil plan` and `tallyveil warm`: the statements of a dashboard, bought together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from tallyveil.accountant import Quote
from tallyveil.cli.asking import opened
from tallyveil.cli.text import Output, table, up_text
from tallyveil.errors import FeatureNotSupported, InvalidParameterValue, TallyveilError
from tallyveil.gate import GateSession
from tallyveil.gate.boards import Board
from tallyveil.gate.deciding.request import Request
from tallyveil.rewriter import Dialect

__all__ = ["plan", "warm"]

_TRIED: Final = tuple(Fraction(n) for n in ("1/8", "1/4", "1/2", "1", "2", "4", "8"))
"""Costs that are tried, times the least at which no row is less precise than asked alone."""

_COLUMNS: Final = ("cost", "total", "total_as_asked", "worst", "worst_as_asked")
_PICTURES: Final = (".svg", ".png", ".pdf")


def plan(policy: Path, statements: Path, dialect: Dialect, output: Path | None) -> Iterator[Output]:
    """Yield for each table the errors of all rows against what is spent on them together; draws
    them into ``output``, too. Free.

    Raises InvalidParameterValue if a file cannot be read or drawn.
    """
    if output is not None and output.suffix not in _PICTURES:
        raise InvalidParameterValue(
            f"{output} is no kind of picture that can be drawn",
            hint=f"Name a file that ends in {', '.join(_PICTURES)}.",
        )
    with opened(policy, dialect, None, {}) as session:
        asked = _requests(session, statements)
        found = [_document(session, board, asked) for board in session.boards(asked)]
    for one in found:
        yield Output(one, _lines(one))
    if output is not None:
        _draw(found, output)
        yield Output({"drawn": str(output)}, [f"Drawn: {output}"])


def warm(
    policy: Path,
    statements: Path | None,
    dialect: Dialect,
    user: str | None,
    cost: Mapping[str, str],
) -> Iterator[Output]:
    """Buy the rows of all statements together, by default of those that the ledger has, so that
    each is free afterwards: at the least cost at which no row is less precise than if it were asked
    alone, or at the ``cost`` given, by its setting. Yields what was bought, table by table.

    Raises what a statement that is refused raises; earlier tables stay bought.
    """
    with opened(policy, dialect, user, {}) as session:
        if statements is None:
            asked, left_out = _past(session)
            if left_out:
                line = f"Left out: {left_out} statements that cannot be asked again by themselves"
                yield Output({"left_out": left_out}, [line])
        else:
            asked = _requests(session, statements)
        for board in session.boards(asked):
            yield _warmed(session, board, asked, cost)


def _requests(session: GateSession, path: Path) -> list[Request]:
    """What the statements of a file ask, with the settings that stand between them."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidParameterValue(
            f"{path} cannot be read: {error}", hint="Name a file of SQL statements."
        ) from error
    found = list[Request]()
    for statement in session.parse(text):
        if statement.kind == "select":
            found.append(session.request(statement))
        elif statement.kind in ("set", "reset"):
            session.execute(statement)
        elif statement.kind != "empty":
            raise FeatureNotSupported(
                f"{statement.tag} is no statement of a dashboard",
                hint="The file holds queries, and SET for their settings.",
            )
    if any(one.source == "fresh" for one in found):
        raise InvalidParameterValue(
            "with dp.source = fresh nothing that is bought answers anything later",
            hint="Leave SET dp.source out of the file.",
        )
    if not any(one.workloads for one in found):
        raise InvalidParameterValue(
            f"{path} asks nothing about a protected table", hint="Name a file of SQL statements."
        )
    return found


def _past(session: GateSession) -> tuple[list[Request], int]:
    """What the statements ask that were charged before, and how many cannot be asked again, such as
    those with parameters."""
    found, left_out = list[Request](), 0
    for text in session.charged():
        try:
            (statement,) = session.parse(text)
            found.append(session.request(statement))
        except TallyveilError:
            left_out += 1
    if not found:
        raise InvalidParameterValue(
            "the ledger has no statement that can be asked again",
            hint="Name a file of SQL statements with --for.",
        )
    return found, left_out


def _document(session: GateSession, board: Board, asked: Sequence[Request]) -> dict[str, Any]:
    least = board.least_cost()
    errors = []
    for times in _TRIED:
        cost = least * times
        own, direct = board.errors(cost), board.errors(cost, together=False)
        figures = (own.total, direct.total, own.worst, direct.worst)
        errors.append({"cost": float(cost), **dict(zip(_COLUMNS[1:], figures, strict=True))})
    return {
        "table": board.table,
        "statements": len(_own(board, asked)),
        "rows": board.rows,
        "measure": board.limits.account.measure,
        "one_by_one": float(_one_by_one(session, board, asked)),
        "together": float(least),
        "errors": errors,
    }


def _lines(found: Mapping[str, Any]) -> list[str]:
    short = [
        {name: float(f"{value:.5g}") for name, value in one.items()} for one in found["errors"]
    ]
    apart = "" if found["together"] < found["one_by_one"] else ": warm asks them one by one"
    return [
        f"{found['table']}: {found['statements']} statements, {found['rows']} different rows",
        f"One by one they cost {found['measure']} {found['one_by_one']:.6g} now; together"
        f" {found['together']:.6g} makes no row less precise{apart}.",
        *table(_COLUMNS, short),
        "total: the root of the sum of all rows' mean squared errors; worst: the largest standard"
        " deviation; as asked: the same rows by noise on each, at the same cost.",
    ]


def _warmed(
    session: GateSession, board: Board, asked: Sequence[Request], cost: Mapping[str, str]
) -> Output:
    own, measure = _own(board, asked), board.limits.account.measure
    apart = _one_by_one(session, board, asked)
    if any(name != measure for name in cost):
        raise InvalidParameterValue(
            f'the budget of table "{board.table}" is of {measure}', hint=f"Give --{measure}."
        )
    given = cost.get(measure)
    together = board.least_cost() if given is None else _number(given, measure)
    if given is None and apart <= together:
        quotes = [session.buy(request) for request in own]
    else:
        quotes = [session.buy(board.at(together))]
    paid = sum((_cost(quote, board.table) for quote in quotes), Fraction())
    free = sum(session.forecast(request).bought == 0 for request in own)
    document = {
        "table": board.table,
        "statements": len(own),
        "rows": board.rows,
        "measure": measure,
        "one_by_one": float(apart),
        "paid": float(paid),
        "free": free,
    }
    line = (
        f"{board.table}: {board.rows} rows of {len(own)} statements for {measure}"
        f" {up_text(paid)}; one by one {up_text(apart)}; {free} of {len(own)} are free now"
    )
    least = "" if free == len(own) else "The others are, with SET dp.source = history."
    return Output(document, [line], [least] if least else [])


def _own(board: Board, asked: Sequence[Request]) -> list[Request]:
    return [one for one in asked if board.table in one.workloads]


def _one_by_one(session: GateSession, board: Board, asked: Sequence[Request]) -> Fraction:
    """The cost of the statements if each were asked now, those with the same text once."""
    once = {one.sql: one for one in _own(board, asked)}
    each = (session.forecast(request).quote for request in once.values())
    return sum((_cost(quote, board.table) for quote in each), Fraction())


def _cost(quote: Quote | None, name: str) -> Fraction:
    every = () if quote is None else quote.tables
    return sum((one.cost for one in every if name in (one.table, *one.tables)), Fraction())


def _number(text: str, measure: str) -> Fraction:
    try:
        cost = Fraction(text)
    except (ValueError, ZeroDivisionError):
        cost = Fraction()
    if cost <= 0:
        raise InvalidParameterValue(f"--{measure} {text} is no cost", hint="Give one, such as 0.1.")
    return cost


def _draw(found: Sequence[Mapping[str, Any]], output: Path) -> None:
    """Raises InvalidParameterValue if matplotlib is missing, or the file cannot be written."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InvalidParameterValue(
            "to draw needs matplotlib, which is not installed", hint="pip install matplotlib"
        ) from None
    figure = Figure(figsize=(9, 4 * len(found)), layout="constrained")
    for place, one in enumerate(found):
        for side, name in enumerate(("total", "worst")):
            axes = figure.add_subplot(len(found), 2, 2 * place + side + 1)
            costs = [row["cost"] for row in one["errors"]]
            for key, label in ((f"{name}_as_asked", "as asked"), (name, "together")):
                axes.loglog(costs, [row[key] for row in one["errors"]], marker="o", label=label)
            axes.set(
                xlabel=f"{one['measure']} spent on {one['table']}",
                ylabel="root of summed squared errors" if name == "total" else "deviation",
                title="all rows" if name == "total" else "worst row",
            )
            axes.legend()
    try:
        figure.savefig(output)
    except OSError as error:
        raise InvalidParameterValue(f"{output} cannot be written: {error}") from error
