"""The lines of EXPLAIN."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Final

from tallyveil.accountant import Account, BudgetReports, TableQuote
from tallyveil.gate.deciding.cost_messages import at_least, at_most, number, percent, remaining
from tallyveil.gate.deciding.noise import Noise
from tallyveil.gate.deciding.outcome import Forecast
from tallyveil.gate.deciding.refusal import different_rows, widest
from tallyveil.gate.deciding.request import Request
from tallyveil.gate.deciding.statistics import FoundStatistic
from tallyveil.gate.growth.publishing import Version
from tallyveil.gate.interface import ColumnType
from tallyveil.gate.notices import interval_text, quotient_text, together_text, what_is
from tallyveil.gate.quotient_intervals import QuotientIntervals
from tallyveil.gate.strategies.translated import reach
from tallyveil.mechanisms import CountMechanism, law_of
from tallyveil.rewriter import Plan
from tallyveil.workload.workload import Column

__all__ = ["as_rows", "explanation", "plan_columns", "together"]

_PLAN_TYPES: Final = {"text": "VARCHAR", "json": "JSON"}


def plan_columns(form: str | None) -> tuple[ColumnType, ...]:
    """The column of EXPLAIN, in the form that FORMAT names."""
    return (ColumnType("QUERY PLAN", _PLAN_TYPES[form or "text"]),)


def as_rows(lines: Iterable[str], plan: Plan, form: str | None) -> list[tuple[str]]:
    """The rows of EXPLAIN: a line each, or one of JSON."""
    if form != "json":
        return [(line,) for line in lines]
    node = {"Node Type": "Noisy Counts" if plan.noisy else "Public Query"}
    return [(json.dumps([{"Plan": {**node, "Lines": [*lines]}}], ensure_ascii=False),)]


def explanation(
    plan: Plan,
    request: Request,
    forecast: Forecast,
    budgets: BudgetReports,
    accounts: Mapping[str, Account],
    quotients: QuotientIntervals,
    versions: Mapping[str, Version],
) -> Iterator[str]:
    """The lines of EXPLAIN: the linear query, its sensitivity, cost, interval, what remains. The
    ``quotients`` are those of what history knows."""
    if not plan.noisy:
        yield from ("Public query: no protected table, no cost", f"  SQL: {plan.sql}")
        return
    yield f"Over the noisy rows: {plan.sql}"
    for query in plan.domain_queries:
        yield f"Coefficients, on the public domain: {query}"
    yield from plan.remarks
    for table, workload in plan.workloads.items():
        line = (
            f"Linear query on {table}: {_rows(sum(c.height for c in workload.columns))} over "
            f"{', '.join(sorted(workload.axes)) or 'no attribute'}"
        )
        if not workload.columns:
            yield line
            continue
        noise = forecast.noise[table]
        origin = "" if noise.origin is None else f", n from {noise.origin}"
        yield f"{line}, by {noise.mechanism.name}{origin}"
        if table in versions:
            yield f"  of {table} {versions[table].words}"
        for index, column in enumerate(workload.columns):
            hidden = ", for sums alone" if index in workload.hidden else ""
            yield (
                f"  aggregate {index + 1}: {_rows(column.height)}{hidden}, "
                f"{_counted(column.entries, 'non-zero coefficient')}, "
                f"{_sensitivity(column, noise, accounts[table])}, "
                f"{_precision(table, index, request, forecast)}"
            )
        yield from _summed(table, request, forecast)
        if table in forecast.parts:
            yield from _bought_instead(noise, forecast.parts[table], request)
        if noise.whole_since is not None:
            yield f"Bought as asked, though other rows would have less noise: {noise.whole_since}"
    for table, each in forecast.statistics.items():
        for one in each:
            yield _statistic(table, one, request.target.confidence)
    yield from _known(request, forecast)
    for text in (*_quotients(quotients, forecast.bought), *together_text(request)):
        yield text[0].upper() + text[1:]
    if forecast.refused is not None:
        yield f"It would be refused: {forecast.refused.message}"
        yield f"  {forecast.refused.hint}"
    yield from _savings(forecast)
    yield from _spreads(forecast)
    yield from _costs(forecast, plan, budgets, request.analyst)


def _bought_instead(noise: Noise, columns: int, request: Request) -> Iterator[str]:
    what = {
        "parts": "parts, which are disjoint or moments of a value",
        "groupings": "groups, or contrasts between them",
        "ordered": "a root of the rows, or of sums of cells",
        "centred": "counts, or sums less a constant times counts that are known",
    }[noise.family or "parts"]
    yield f"Bought as {_counted(columns, 'column')} of {what}: all rows follow"
    if noise.share is not None:
        yield f"  cost: {noise.share:.3g} of that as asked, by strategy {noise.family}"
        return
    least = "" if noise.bound is None else f"; no rows bought get below {noise.bound:.3g}"
    kind = "relative squared" if request.objective == "relative" else "squared"
    yield f"  {kind} error: {noise.gain:.3g} of that as asked, by strategy {noise.family}{least}"


def _precision(table: str, index: int, request: Request, forecast: Forecast) -> str:
    """The noise of a column, and the interval to expect."""
    noise, confidence = forecast.noise[table], request.target.confidence
    column = request.workloads[table].columns[index]
    if table in forecast.parts:
        unit, alone = float(column.multiplier), noise.mechanism.worst_error(noise.scales[index])
        least, most = noise.deviations[index], math.sqrt(alone)
        return (
            f"standard deviation {unit * least:.6g} by {noise.family}, instead of {unit * most:.6g}"
        )
    follower = noise.follower(index)
    if follower is None:
        scale = _scale(table, index, request, forecast)
        bought = _bought(table, index, request, forecast)
        return f"{scale}, {_expected(noise, column, bought, confidence)}"
    better = "" if follower.alike else " or better"
    leader = noise.scales[follower.of]
    expected = _expected(noise, column, leader, confidence, follower.times)
    return f"multiples of other rows, {expected}{better}"


def _scale(table: str, index: int, request: Request, forecast: Forecast) -> str:
    """The scale at which rows of a column would be bought, and the scale without other answers."""
    alone = _bought(table, index, request, forecast)
    bought = forecast.scales.get(table, {}).get(index, alone)
    unit = float(request.workloads[table].columns[index].multiplier)
    if request.target.half_width is None or bought <= alone:
        return f"scale {number(unit * alone)}"
    without = "if drawn independently" if table in forecast.spreads else "by itself"
    return f"scale {number(unit * bought)} ({number(unit * alone)} {without})"


def _bought(table: str, index: int, request: Request, forecast: Forecast) -> float:
    """The scale of the rows that are bought, which share the cost with no others; for a half-width
    that which meets it without other answers."""
    alone = forecast.noise[table].scales[index]
    if request.target.half_width is not None:
        return alone
    return min(alone, forecast.scales.get(table, {}).get(index, alone))


def _summed(table: str, request: Request, forecast: Forecast) -> Iterator[str]:
    """The intervals of what is summed up from each aggregate."""
    confidence, columns = request.target.confidence, request.summed.get(table, ())
    noise = forecast.noise[table]
    if table in forecast.parts and columns:
        each = noise.deviations[len(request.workloads[table].columns) :]
        for one, most in zip(columns, each, strict=True):
            deviation = f"standard deviation {float(one.column.multiplier) * most:.6g}"
            number = _rows(one.column.height)
            yield f"  aggregate {one.of + 1}, summed up: {number}, {deviation} by {noise.family}"
        return
    heights: Counter[int] = Counter()
    halves: dict[int, set[Fraction]] = {}
    for one, rows in zip(columns, forecast.summed.get(table, ()), strict=True):
        heights[one.of] += len(rows)
        own = halves.setdefault(one.of, set())
        for error in rows.used_errors:
            own.add(one.column.multiplier * Fraction(error.half_width(confidence)))
    for index, found in sorted(halves.items()):
        better = " or better" if any(found) else ""
        width = f", {interval_text(found, confidence)}{better}" if found else ""
        yield f"  aggregate {index + 1}, summed up: {_rows(heights[index])}{width}"


def _quotients(quotients: QuotientIntervals, bought: int) -> Iterator[str]:
    """The intervals of averages, ratios and moments, if all they are made of is known."""
    if not bought:
        yield from quotient_text(quotients)
        return
    every = (one for table in quotients.plan.noisy for one, _ in table.quotients)
    for what in sorted({*map(what_is, every)} - {""}):
        yield (
            f"{what}: an interval about as wide as the numerator's, divided by the"
            " denominator; unbounded where the denominator's includes 0"
        )


def _savings(forecast: Forecast) -> Iterator[str]:
    """What is charged instead of the rows, where counts are exact."""
    for table, saving in forecast.savings.items():
        for index, step in saving.sensitivities.items():
            yield (
                f"  aggregate {index + 1}: charged as a translate by exact counts, sensitivity"
                f" {number(step)}"
            )
        measure = "epsilon" if forecast.quote is None else forecast.quote[table].measure
        yield (
            f"Saved by invariants of {table}: {measure} {number(saving.saved)}, by"
            f" {'; '.join(saving.invariants)}"
        )
    for table, own in forecast.comparisons.items():
        yield (
            f"Squared error of all rows of {table}, times 2 rho: {number(own.plain)} as asked,"
            f" {number(own.charged)} as charged, {number(own.optimal)} by dp.mechanism = optimal;"
            f" no Gaussian noise has less than {number(own.bound)}"
        )


def _spreads(forecast: Forecast) -> Iterator[str]:
    """What drawing noise jointly saves: it costs what independent noise costs."""
    for table, spread in forecast.spreads.items():
        for index, (least, most, alone) in spread.deviations.items():
            ends = dict.fromkeys(format(one, ".6g") for one in (least, most))
            yield (
                f"  aggregate {index + 1}: noise drawn together, standard deviation"
                f" {' to '.join(ends)} instead of {alone:.6g}"
            )
        by = "; ".join(spread.invariants) or "the rows' own sums"
        yield f"Noise on {table} conditioned on: {by}"


def _known(request: Request, forecast: Forecast) -> Iterator[str]:
    """What history knows, and what would be bought."""
    confidence = request.target.confidence
    half = widest(request.workloads, forecast.found, confidence)
    different = different_rows(forecast.found, forecast.noise)
    known = sum(own.known_rows for own in different)
    known += sum(one.known_groups for each in forecast.statistics.values() for one in each)
    worst = "" if half is None else f", {interval_text([half], confidence)} or better"
    yield f"Known from history: {_rows(known)}{worst}; to buy: {forecast.bought}"
    exact = sum(int(own.holds(lambda error: error.exact).sum()) for own in different)
    if exact:
        yield f"  exact, from public facts: {_rows(exact)}"


def _statistic(table: str, one: FoundStatistic, confidence: Fraction) -> str:
    """What is asked of a histogram, and how it would be bought."""
    histogram, half = one.histogram, one.half(one.wanted, one.scale, confidence)
    what, expected = "Distinct count", interval_text([Fraction(half)], confidence)
    if histogram.q is not None:
        what = f"Quantile of rank {histogram.q}"
        expected = f"at most {half} records from its rank {percent(confidence)}"
    elif histogram.picks:
        what = "Mode"
        expected = f"at most {half} records fewer than the largest count {percent(confidence)}"
    values, axes = histogram.column.height, ", ".join(histogram.column.axes)
    asked = f"{_counted(values, 'value')} over {axes}"
    if histogram.units:
        what, asked = "Number of units", f"over {axes or 'no attribute'}"
    return (
        f"{what} on {table}: {_counted(histogram.height, 'group')}, {asked}, by {one.wanted.name},"
        f" scale {number(one.scale)}, {expected}"
    )


def _rows(number: int) -> str:
    return _counted(number, "row")


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _expected(
    noise: Noise, column: Column, scale: float, confidence: Fraction, times: Fraction | int = 1
) -> str:
    """The interval to expect of ``times`` an answer at this scale."""
    if isinstance(noise.mechanism, CountMechanism) and scale:
        widest = noise.mechanism.widest(scale, confidence)
        return f"interval of width at most {widest} {percent(confidence)}"
    law = law_of(noise.mechanism.name, scale)
    half = 0 if law is None or not scale else law.half_width(confidence)
    return interval_text([column.multiplier * times * half], confidence)


def _sensitivity(column: Column, noise: Noise, account: Account) -> str:
    """The sensitivity in the norm that the noise is fitted to, for all rows of a unit."""
    squared, relation = noise.mechanism.needs_delta, account.relation
    step = float(column.multiplier) * reach(column, relation, squared)
    rows = relation.max_rows
    times = math.sqrt(relation.stacking(column, "rho")) if squared else rows
    apart = "" if times == rows else f"{number(times)} for "
    product = "" if rows == 1 else f": {number(step)} × {apart}{rows} rows"
    of = f"{number(step * times)}{product} ({relation.neighbours})"
    return f"{'L2 ' if squared else ''}sensitivity {of}"


def together(quotes: Sequence[TableQuote]) -> Iterator[str]:
    """What several statements cost at most, by budget and share: cells that only some of them
    count, and answers that follow from earlier ones, make it less."""
    by_budget: dict[tuple[str, str | None], list[TableQuote]] = {}
    for quote in quotes:
        by_budget.setdefault((quote.table, quote.analyst), []).append(quote)
    for (_, analyst), own in by_budget.items():
        whose = "" if analyst is None else f"{analyst}'s share of "
        cost, before = sum(quote.cost for quote in own), own[0].remaining_before
        fits = "" if cost <= before else ", so not all may fit"
        yield (
            f"Together at most: {own[0].measure} {at_most(Fraction(cost))} of {whose}"
            f"{own[0].owner}'s budget; {at_least(before)} remains{fits}"
        )


def _costs(forecast: Forecast, plan: Plan, budgets: BudgetReports, analyst: str) -> Iterator[str]:
    if forecast.quote is None:
        yield "Cost: nothing"
        tables = dict.fromkeys([*plan.workloads, *plan.histograms])
        yield from dict.fromkeys(remaining(budgets, table, analyst) for table in tables)
        return
    for quote in (*forecast.quote.shares, *forecast.quote.tables):
        whose = "" if quote.analyst is None else f"{quote.analyst}'s share of "
        after = f", {at_least(quote.remaining_after)} after"
        yield (
            f"Cost: {quote.measure} {at_most(quote.cost)} of {whose}{quote.owner}'s budget; "
            f"{at_least(quote.remaining_before)} remains"
            + (after if quote.allowed else ": it would be refused")
        )
