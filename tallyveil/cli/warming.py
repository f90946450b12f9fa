"""`tallyveil warm`: a strategy released once, from which later questions are answered."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import typer

from tallyveil.accountant import Quote
from tallyveil.cli.error_messages import protected
from tallyveil.cli.text import aligned, down, down_text, print_json, up, up_text
from tallyveil.errors import BudgetExceeded, FeatureNotSupported, InvalidParameterValue
from tallyveil.gate import Gate
from tallyveil.gate.deciding.noise import Noise
from tallyveil.gate.deciding.request import Request
from tallyveil.gate.settings import Target
from tallyveil.inference import ErrorLaw, NoiseLaw
from tallyveil.mechanisms import AUTO, law_of
from tallyveil.mechanisms.units import nearest_units, positive
from tallyveil.policy import Policy, load_policy
from tallyveil.proxy.inprocess import login_name
from tallyveil.strategies import Strategy, Typical, parse_strategy

__all__ = ["price", "warm"]

_COLUMNS = ("question", "counts_added", "half_width")


class Price(NamedTuple):
    """The cost of the whole release; exactly one is given."""

    epsilon: Fraction | None
    rho: Fraction | None


def price(epsilon: str | None, rho: str | None) -> Price:
    """Parse the cost. Raises InvalidParameterValue unless exactly one is given."""
    if (epsilon is None) == (rho is None):
        raise InvalidParameterValue("give either --epsilon or --rho")
    return Price(
        None if epsilon is None else positive(epsilon, "epsilon"),
        None if rho is None else positive(rho, "rho"),
    )


def warm(
    path: Path,
    table: str,
    text: str,
    names: list[str] | None,
    cost: Price,
    *,
    dry: bool,
    yes: bool,
    json: bool,
) -> None:
    """Print the intervals of typical questions, ask for confirmation, and release the strategy
    unless ``dry``.

    Raises PolicyError, SourceError, BudgetExceeded, and as `parse_strategy`; then nothing is
    charged.
    """
    policy = load_policy(path)
    asks = not (dry or yes)
    _check(policy, table, cost, nobody_to_ask=asks and (json or not _on_a_terminal()))
    strategy = parse_strategy(text, policy.tables[table], names)
    request = _request(policy, strategy, cost)
    with _hints_for_the_shell(), closing(Gate(policy)) as gate:
        forecast = gate.decision.forecast(request)
        if forecast.refused is not None:
            raise forecast.refused
        confidence = request.target.confidence
        rows = [_row(one, strategy, forecast.noise[table], confidence) for one in strategy.typical]
        quote = forecast.quote
        if not json:
            _describe(strategy, rows, confidence, forecast.known_rows, quote)
        released = not dry
        # A refusal needs no confirmation.
        if asks and quote is not None and quote.allowed:
            released = typer.confirm("Spend it?")
        if released:
            quote = gate.decision.answer(request).quote
    if json:
        known = {"known": forecast.known_rows, "confidence": float(confidence)}
        counts = {"strategy": strategy.words, "counts": strategy.counts, **known}
        print_json({**counts, "typical": rows, "released": released, **_cost(quote, table)})
    elif released:
        typer.echo("Released. The counts are in history, and later questions are answered from it.")
    else:
        typer.echo("Nothing was charged.")


def _check(policy: Policy, table: str, cost: Price, *, nobody_to_ask: bool) -> None:
    declared = protected(policy, table)
    if nobody_to_ask:
        raise InvalidParameterValue(
            "warm asks for confirmation before it spends, which needs a terminal",
            hint="Add --yes to spend without confirmation, or --dry-run to see the intervals.",
        )
    if cost.rho is not None and declared.budget.pure:
        raise InvalidParameterValue(
            f'the budget of table "{table}" is in epsilon, so --rho cannot be used',
            hint="Give --epsilon instead.",
        )


@contextmanager
def _hints_for_the_shell() -> Iterator[None]:
    """Replace the gate's hints, which are about SQL, by hints about options."""
    try:
        yield
    except BudgetExceeded as error:
        most = down(nearest_units(error.remaining))
        error.hint = (
            f"Give --{error.unit} {most:.12g} or less; --dry-run shows the resulting intervals."
            if most > 0
            else "Nothing remains for the records asked about most; answers from history are free."
        )
        raise
    except FeatureNotSupported as error:
        error.hint = "Add laplace or gaussian to the table's mechanisms in the policy."
        raise


def _on_a_terminal() -> bool:
    return sys.stdin.isatty()


def _request(policy: Policy, strategy: Strategy, cost: Price) -> Request:
    """Return the request. It uses AUTO, which takes the additive mechanism of least error, since
    the counts will be added up."""
    table = strategy.workload.table
    confidence = Fraction(repr(policy.defaults.confidence))
    target = Target(*cost, None, confidence)
    return Request(
        {table: strategy.workload},
        target,
        "auto",
        AUTO,
        strategy.words,
        login_name(),
        frozenset({table}),
        custodian=True,
    )


def _row(
    typical: Typical, strategy: Strategy, noise: Noise, confidence: Fraction
) -> dict[str, Any]:
    """Return the half-width to expect for the sum of the counts that answer the question."""
    laws = Counter[NoiseLaw]()
    for column, number in typical.parts.items():
        law = law_of(noise.mechanism.name, noise.scales[column])
        if law is None:
            raise TypeError(f"answers of {noise.mechanism.name} cannot be added up")
        laws[law] += number
    half = math.floor(ErrorLaw.of_sum(laws).half_width(confidence))
    multiplier = strategy.workload.columns[0].multiplier
    return {
        "question": typical.question,
        "counts_added": sum(typical.parts.values()),
        "half_width": up(multiplier * half, 0),
    }


def _describe(
    strategy: Strategy,
    rows: list[dict[str, Any]],
    confidence: Fraction,
    known_rows: int,
    quote: Quote | None,
) -> None:
    shown = [[row["question"], row["counts_added"], f"±{row['half_width']:.0f}"] for row in rows]
    typer.echo(f"{strategy.words}: {strategy.counts:,} counts")
    typer.echo("\n".join(aligned(_COLUMNS, shown)))
    typer.echo(f"Intervals at {float(confidence * 100):g} %.")
    if known_rows:
        typer.echo(f"History has {known_rows:,} of the counts; only the others are charged.")
    if quote is None:
        typer.echo("This costs nothing.")
        return
    for one in (*quote.shares, *quote.tables):
        whose = "" if one.analyst is None else f"{one.analyst}'s share of "
        left = (
            f"{down_text(one.remaining_after)} remains after"
            if one.allowed
            else f"more than the {down_text(one.remaining_before)} that remains"
        )
        cost = f"{one.measure} {up_text(one.cost)}"
        typer.echo(f"This costs {cost} of {whose}{one.table}'s budget: {left}.")


def _cost(quote: Quote | None, table: str) -> dict[str, Any]:
    if quote is None:
        return {"cost": 0.0, "unit": None, "allowed": True}
    one = quote[table]
    return {"cost": up(one.cost), "unit": one.measure, "allowed": quote.allowed}
