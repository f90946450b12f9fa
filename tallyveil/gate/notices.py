"""What the gate reports besides the answer: the notice, and warnings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from fractions import Fraction
from typing import NamedTuple

from tallyveil.accountant import BudgetReports, cost_text
from tallyveil.gate.deciding.cost_messages import percent, remaining
from tallyveil.gate.deciding.noise import Noise
from tallyveil.gate.deciding.outcome import Answered, LookIntervals
from tallyveil.gate.deciding.request import Request
from tallyveil.gate.deciding.statistics import FoundStatistic
from tallyveil.gate.interface import Notice
from tallyveil.gate.quotient_intervals import QuotientIntervals
from tallyveil.knowledge import Answers, Error
from tallyveil.rewriter import Column, Plan
from tallyveil.rewriter.query_plan import Moment, Quotient

__all__ = ["interval_text", "notice", "quotient_text", "together_text", "warnings", "what_is"]


def notice(
    request: Request,
    answered: Answered,
    budgets: BudgetReports,
    looks: LookIntervals | None,
    quotients: QuotientIntervals,
) -> Notice:
    """What the answer cost, how wide its intervals are, those of sums and ``quotients`` included,
    by how much more some are so that they hold values that add up, and what remains. With ``looks``
    the intervals are those over all looks."""
    confidence = request.target.confidence
    own = _intervals(request, answered, looks)
    asked = [
        answers
        for table in request.workloads
        for answers in answered.noise[table].different(answered.columns[table])
    ]
    statistics = [one for each in answered.statistics.values() for one in each]
    height = sum(map(len, asked)) + sum(len(one.known) for one in statistics)
    missing = height - sum(answers.known_rows for answers in asked)
    missing -= sum(one.known_groups for one in statistics)
    parts = [_cost(answered, height)]
    if own.halves:
        parts.append(_interval_texts(own.halves, confidence) + (" over all looks" if looks else ""))
    if own.extended:
        parts[-1] += f", extended by up to {own.extended:.6g} to hold values that add up"
    parts += quotient_text(quotients)
    parts += together_text(request)
    if own.ranged:
        parts.append(_widths({error.reach(confidence)[1] for error in own.ranged}, confidence))
        parts.append(_by_mechanisms(own.ranged, answered.noise))
        parts.append("such answers are biased and need not add up")
    parts += _statistics_texts(statistics, confidence)
    left = (remaining(budgets, table, request.analyst) for table in request.tables)
    parts += dict.fromkeys(left)
    hints = [_unknown(missing, height, request)] if missing else []
    bare = 0 if looks is None else _without_ends(answered, looks)
    if answered.apart:
        hints.append(
            f"The rows need not add up to {' or to '.join(sorted(answered.apart))}: together they"
            " are too many, overlap in too many ways, or have values of too many digits."
            " Ask for fewer of them in one statement."
        )
    if bare:
        hints.append(_no_answer_of_its_own(bare, height))
    return Notice("; ".join(parts), hint=" ".join(hints) or None)


class _Intervals(NamedTuple):
    """``halves`` are half-widths by the most that one record adds to a row, since a count's and a
    sum's do not mix; ``ranged`` are errors whose intervals are not symmetric. Some intervals are
    ``extended`` by so much at most."""

    halves: dict[Fraction, set[Fraction]]
    ranged: list[Error]
    extended: float


def _intervals(request: Request, answered: Answered, looks: LookIntervals | None) -> _Intervals:
    confidence = request.target.confidence
    halves: dict[Fraction, set[Fraction]] = {}
    ranged: list[Error] = []
    extended = 0.0
    for column, found in () if looks is None else _over_all_looks(request, looks):
        halves.setdefault(column.multiplier * column.largest, set()).update(found)
    for column, answers in _reported(request, answered) if looks is None else ():
        for error in answers.used_errors:
            if error.additive:
                half = column.multiplier * Fraction(error.half_width(confidence))
                halves.setdefault(column.multiplier * column.largest, set()).add(half)
            else:
                ranged.append(error)
        least = 0 if request.nonnegative and column.counts_up else None
        steps = answers.extension(confidence, least)
        extended = max(extended, float(column.multiplier * Fraction(steps)))
    for one in (one for each in answered.statistics.values() for one in each):
        for bound in () if one.histogram.picks else one.bounds(confidence):  # distinct counts
            halves.setdefault(Fraction(1), set()).add(Fraction(bound))
    return _Intervals(halves, ranged, extended)


def _cost(answered: Answered, height: int) -> str:
    """What the ``height`` different numbers of an answer cost."""
    text = cost_text(answered.quote) if answered.quote else _free_text(answered)
    if answered.quote and answered.bought < height:
        text += (
            f" for {answered.bought} of the {height} different numbers in the result,"
            " the others are free"
        )
    if answered.raised:
        text += ", the least a statement costs, for more precision than dp.half_width asks"
    return text


def _statistics_texts(
    statistics: Collection[FoundStatistic], confidence: Fraction
) -> Iterator[str]:
    """The bounds of the errors of quantiles, in ranks, and of modes, in records."""
    drawn = [one for one in statistics if one.histogram.picks]
    quantiles = [one for one in drawn if one.histogram.q is not None]
    ranks = {bound for one in quantiles for bound in one.bounds(confidence)}
    counted = {bound for one in statistics for bound in one.bounds(confidence, counted=True)}
    others = [one for one in drawn if one.histogram.q is None]
    modes = {bound for one in others for bound in one.bounds(confidence)}
    if ranks:
        yield (
            f"quantiles are values at most {max(ranks)} records from their rank"
            f" {percent(confidence)}, by the exponential mechanism; where a group has fewer, they"
            " may be any value"
        )
    if counted:
        yield (
            f"{'others' if ranks else 'quantiles'} are values at most {max(counted)} records from"
            f" their rank {percent(confidence)}, by earlier counts"
        )
    if modes:
        yield (
            f"modes are values with at most {max(modes)} records fewer than the largest count"
            f" {percent(confidence)}, by the exponential mechanism"
        )


def _reported(request: Request, answered: Answered) -> Iterator[tuple[Column, Answers]]:
    """Each column that is shown or summed up, and its answers."""
    for table, workload in request.workloads.items():
        pairs = zip(workload.columns, answered.columns[table], strict=True)
        for number, (asked, answers) in enumerate(pairs):
            if number not in workload.hidden:
                yield asked, answers
        for one, answers in zip(request.summed.get(table, ()), answered.summed[table], strict=True):
            yield one.column, answers


def together_text(request: Request) -> Iterator[str]:
    """How many intervals hold together, if they do."""
    if request.together is not None:
        number, confidence = request.together
        yield f"the {number} intervals hold together {percent(confidence)}"


def quotient_text(quotients: QuotientIntervals) -> Iterator[str]:
    """The range of half the widths of the intervals of averages and ratios, and of moments."""
    halves, unbounded = dict[str, set[Fraction]](), Counter[str]()
    for table in quotients.plan.noisy:
        for one, _ in table.quotients:
            if what := what_is(one):
                found, infinite = quotients.half_widths(table, one)
                ends = (found.min(), found.max()) if len(found) else ()
                halves.setdefault(what, set()).update(map(Fraction, ends))
                unbounded[what] += infinite
    for what, own in sorted(halves.items()):
        rows = f"unbounded in {unbounded[what]} {'row' if unbounded[what] == 1 else 'rows'}"
        parts = ([_range(own)] if own else []) + [rows] * bool(unbounded[what])
        if parts:
            yield f"{what} {', '.join(parts)}"


def what_is(one: Quotient | Moment) -> str:
    """What an interval is of, to an analyst; empty for a linear combination."""
    if isinstance(one, Moment):
        return "variances and the like"
    return "averages and ratios" if one.bottom else ""


def _over_all_looks(
    request: Request, looks: LookIntervals
) -> Iterator[tuple[Column, list[Fraction]]]:
    for table, workload in request.workloads.items():
        for column, found in zip(workload.columns, looks[table], strict=True):
            if found.half_widths:
                yield column, [column.multiplier * half for half in found.half_widths]


def _without_ends(answered: Answered, looks: LookIntervals) -> int:
    """The number of different rows with an answer and no interval."""
    return sum(
        column.without_ends(answered.noise[table].numbers(number, len(column.ends)))
        for table, columns in looks.items()
        for number, column in enumerate(columns)
    )


def _no_answer_of_its_own(rows: int, height: int) -> str:
    every = f"the {height} different numbers in the result"
    if height == 1:
        which = "the row itself was never answered"
    elif rows == height:
        which = f"none of {every} was ever answered"
    else:
        which = f"{rows} of {every} {'was' if rows == 1 else 'were'} never answered"
    them = "it" if rows == 1 else "them"
    return (
        f"No interval over all looks: {which}, only other rows that determine {them}."
        " SET dp.source = fresh buys an answer."
    )


def warnings(plan: Plan, offset: int) -> tuple[Notice, ...]:
    """What the analyst should know with the answer. ``offset`` is added to the positions."""
    return tuple(
        Notice(
            caution.message,
            caution.detail,
            caution.hint,
            sqlstate="01000",
            severity="WARNING",
            position=None if caution.position is None else caution.position + offset,
        )
        for caution in plan.cautions
    )


def _unknown(missing: int, rows: int, request: Request) -> str:
    how_many = "any" if missing == rows else str(missing)
    which = "it" if rows == 1 else f"{how_many} of the {rows} different numbers in the result"
    setting = "dp.as_of = ''" if request.past else "dp.source = auto"
    return f"NULL: earlier answers do not determine {which}. SET {setting} to buy what is missing."


def _free_text(answered: Answered) -> str:
    exact = all(own.all_exact for columns in answered.columns.values() for own in columns)
    if exact and not any(answered.statistics.values()):
        return "exact, from public facts; free"
    return "answered from history, free"


def interval_text(halves: Collection[Fraction], confidence: Fraction) -> str:
    """The range of half-widths, such as "interval ±30 to ±97 at 95 %"."""
    return f"interval {_range(halves)} {percent(confidence)}"


def _interval_texts(halves: Mapping[Fraction, Collection[Fraction]], confidence: Fraction) -> str:
    """As `interval_text`, apart by the largest value of a record where that differs."""
    if len(halves) == 1:
        return interval_text(next(iter(halves.values())), confidence)
    each = (
        f"{_range(own)} for {'counts' if most == 1 else f'sums of values up to {float(most):.6g}'}"
        for most, own in sorted(halves.items())
    )
    return f"interval {', '.join(each)} {percent(confidence)}"


def _range(halves: Collection[Fraction]) -> str:
    ends = [format(float(end), ".6g") for end in (min(halves), max(halves))]
    return f"±{ends[1]}" if ends[0] == ends[1] else f"±{ends[0]} to ±{ends[1]}"


def _widths(widths: Collection[int], confidence: Fraction) -> str:
    """The widths of intervals that are not symmetric."""
    low, high = min(widths), max(widths)
    width = f"{low}" if low == high else f"{low} to {high}"
    return f"interval of width {width} {percent(confidence)}"


def _by_mechanisms(ranged: Collection[Error], noise: Mapping[str, Noise]) -> str:
    """By which mechanisms, and where their n is from if the analyst did not give it."""
    origins = {n.mechanism.name: n.origin for n in noise.values() if n.origin is not None}
    names = sorted({error.by for error in ranged if error.by is not None})
    return "by " + ", ".join(
        f"{name}, n from {origins[name]}" if name in origins else name for name in names
    )
