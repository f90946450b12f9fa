"""Inference control: refuses purchases by which a count would become known too precisely.

A policy may require that no count is known to less than ± some records, at some confidence. Then a
purchase is refused if it would make the interval of an estimate narrower than that (`previews`): of
a row that is asked, of one that was bought before, or of the difference of two nested groups. The
unit for a row that is not a count is the most by which one record changes it. An interval that is
narrower already, from under another policy, may not become narrower still.

A refusal depends on the statement, the ledger and the policy. If a policy exempts large groups,
recorded noisy answers determine which are large, as for anyone who sees these: no confidential data
is used. It is a rule on top of differential privacy and no guarantee of its own:
`docs/guarantees.md` lists what it does not see.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Final

import numpy as np
from scipy import sparse

from tallyveil.accountant import Accountant, Charge, Seen
from tallyveil.arrays import BoolArray, FloatArray, IntArray
from tallyveil.errors import InsufficientPrivilege
from tallyveil.gate.deciding.cost_messages import percent
from tallyveil.gate.deciding.request import Request
from tallyveil.inference import combined
from tallyveil.knowledge import Estimate, Knowledge, Precision, Preview, too_complex
from tallyveil.mechanisms import law_of
from tallyveil.policy import InferenceControl, Table

__all__ = ["Control"]

_SAME: Final = 1 - 1e-6  # weights are known to eight digits
_WIDEST: Final = 2.0**12  # the largest factor that is tried
_CLOSE: Final = 1.003  # how near to the least factor the search ends
_STEPS: Final = 20  # of that search at most: 12 to reach the largest, 8 to come close
_WORK: Final = 1_000_000_000  # of all its steps: for each the cube of the rows, and
_LAW: Final = 100_000  # for each query


class Control:
    """For the tables of one policy. Threads may share it."""

    def __init__(
        self,
        accountant: Accountant,
        tables: Mapping[str, Table],
        knowledge: Mapping[str, Knowledge],
    ) -> None:
        self._accountant = accountant
        self._knowledge = knowledge
        self._limits = {
            name: table.inference_control
            for name, table in tables.items()
            if table.inference_control is not None
        }

    def state(self, tables: Iterable[str]) -> dict[str, Seen]:
        """The state of the ledger for those tables that have a limit; what it allows depends on
        them."""
        limited = [table for table in tables if table in self._limits]
        return dict.fromkeys(limited, self._accountant.seen()) if limited else {}

    def refusal(self, charges: Sequence[Charge], request: Request) -> InsufficientPrivilege | None:
        """Return why these charges may not be bought for the request, with the interval at its
        confidence that may be, or None if they may. Free; it changes nothing.

        Raises StatementTooComplex if there is too much to examine.
        """
        for charge in charges:
            table = charge.table
            limit = self._limits.get(table)
            if limit is None:
                continue
            for found in self._knowledge[table].previews(charge):
                sharp = _too_sharp(found, limit)
                if sharp:
                    hint = _instead(found, sharp, charge, limit, request)
                    return _refused(table, limit, hint)
        return None


def _too_sharp(found: Preview, limit: InferenceControl) -> list[int]:
    """The numbers of the queries that would become known more precisely than allowed."""
    least = found.least_variances()
    open_ = np.flatnonzero(~_surely_wide(least, found.steps, limit))
    if not len(open_):
        return []
    return [int(open_[n]) for n in _sharp(found.take(open_), limit)]


def _sharp(found: Preview, limit: InferenceControl) -> list[int]:
    """As `_too_sharp`, from the estimates themselves."""
    confidence = Fraction(repr(limit.confidence))
    after = found.after()
    variances = after.variances(found.queries)
    if not np.isfinite(variances).all():
        raise too_complex()
    closely = np.flatnonzero(~_surely_wide(variances, found.steps, limit))
    part = found.take(closely)
    narrow = []
    for n, alone in zip(closely.tolist(), part.alone(), strict=True):
        least = limit.min_half_width * float(found.steps[n]) * _SAME
        wide = alone is None or alone.half_width(confidence) >= least
        if not (wide and _at_least(after, found.queries[[n]], least, confidence)):
            narrow.append(n)
    if not narrow:
        return []
    part, sharp = found.take(narrow), []
    for n, (query, known) in enumerate(zip(narrow, _known(part), strict=True)):
        if known is not None and variances[query] >= known.variance * _SAME:
            continue
        if not _large(known, part, n, limit, confidence):
            sharp.append(query)
    return sharp


def _at_least(
    after: Precision, query: sparse.csr_matrix, least: float, confidence: Fraction
) -> bool:
    """Whether the half-width of the query's interval is at least ``least``. A narrower interval
    shows it if that is wide enough by more than a point of its law, which is a weight wide."""
    narrower = after.narrower(query)
    if narrower.half_width(confidence) - narrower.weights.values.max(initial=0) >= least:
        return True
    return after.of_query(query).half_width(confidence) >= least


def _surely_wide(variances: FloatArray, steps: IntArray, limit: InferenceControl) -> BoolArray:
    """Which queries need no closer examination, whatever the laws of their errors.

    A symmetric law of variance v whose density is log-concave has a density of at most 1/√(2v), so
    P(|X| ≤ h) ≤ h √(2/v), and a half-width of at least confidence · √(v/2). One step is subtracted
    for discrete laws.
    """
    least = limit.confidence * np.sqrt(variances / 2) - steps
    wide: BoolArray = least >= limit.min_half_width * steps
    return wide


def _large(
    known: Estimate | None,
    found: Preview,
    query: int,
    limit: InferenceControl,
    confidence: Fraction,
) -> bool:
    """Whether the query is a group that history shows to be large."""
    if limit.min_count is None or known is None or not found.counts[query]:
        return False
    low = (known.value - known.half_width(confidence)) / float(found.steps[query])
    return low >= limit.min_count


def _refused(table: str, limit: InferenceControl, hint: str) -> InsufficientPrivilege:
    small = "" if limit.min_count is None else f" of less than {limit.min_count:,}"
    return InsufficientPrivilege(
        f'the inference control of table "{table}" does not allow this: a'
        f" count{small} would be known to less than ±{limit.min_half_width:g} at"
        f" {limit.confidence * 100:g} %",
        detail="Earlier answers count too, and so do the differences of two groups.",
        hint=hint,
    )


def _instead(
    found: Preview, sharp: list[int], charge: Charge, limit: InferenceControl, request: Request
) -> str:
    """The hint: how wide an interval may be bought, if any."""
    known, part = "SET dp.source = history for what is known already", found.take(sharp)
    factor = _least_factor(part, limit)
    if factor is None:
        return f"{known}, or ask for fewer groups or a wider interval."
    half = _up(max(_halves(found, charge, factor, request)))
    at = percent(request.target.confidence)
    return f"SET dp.half_width to at least {half}, {at}, or {known}."


def _least_factor(part: Preview, limit: InferenceControl) -> float | None:
    """A factor by which to widen fresh noise so that these queries are permitted, close to the
    least. None if there is none, or if finding one is too much work: as that is counted in steps,
    the hint is the same on every machine."""
    if _narrow_already(part, limit):
        return None
    each = part.rows.shape[0] ** 3 + _LAW * part.queries.shape[0]
    low, high, found = 1.0, 2.0, False
    for _ in range(min(_STEPS, _WORK // each)):
        factor = math.sqrt(low * high) if found else high
        if not _too_sharp(part.wider(factor), limit):
            found, high = True, factor
        elif found:
            low = factor
        else:
            low, high = high, 2 * high
        if high > _WIDEST or (found and high < _CLOSE * low):
            break
    return high if found else None


def _narrow_already(part: Preview, limit: InferenceControl) -> bool:
    """Whether history determines a query more precisely than allowed, which no factor mends."""
    confidence = Fraction(repr(limit.confidence))
    return any(
        known is not None
        and known.half_width(confidence) < limit.min_half_width * float(steps) * _SAME
        for known, steps in zip(_known(part), part.steps.tolist(), strict=True)
    )


def _halves(found: Preview, charge: Charge, factor: float, request: Request) -> Iterator[Fraction]:
    """The half-widths of the rows of ``charge``, in the answer's units, with noise ``factor`` times
    as wide, and with what history knows of them if that is used."""
    asked = found.asked()
    laws = {
        (number, None if row is None else row.signature): row
        for number, row in zip(found.origin[found.fresh].tolist(), _known(asked), strict=True)
    }
    for (number, _), row in laws.items():
        column, scale = charge.workload.columns[number], charge.scales[number] * factor
        law = law_of(charge.mechanism, scale)
        if law is None:
            raise TypeError(f"{charge.mechanism} is no noise that is added")
        error = None if row is None or request.source == "fresh" else row.error
        error = combined(error, type(law), scale)
        yield column.multiplier * Fraction(error.half_width(request.target.confidence))


def _known(found: Preview) -> Iterator[Estimate | None]:
    """The estimate of each query from history, or None."""
    before = found.before()
    for n, variance in enumerate(before.variances(found.queries).tolist()):
        yield before.of_query(found.queries[[n]]) if variance < math.inf else None


def _up(half: Fraction) -> str:
    """The value in three digits, rounded up."""
    places = max(0, 2 - math.floor(math.log10(half)))
    return format(math.ceil(half * 10**places) / 10**places, ".10g")
