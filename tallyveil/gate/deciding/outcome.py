"""The outcome of a request: how it was answered, or would be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tallyveil.accountant import Quote
from tallyveil.errors import InsufficientPrivilege
from tallyveil.gate.deciding.noise import Noise
from tallyveil.gate.deciding.statistics import FoundStatistic
from tallyveil.gate.strategies.conditioned import Spread
from tallyveil.gate.strategies.optimal import ErrorComparison
from tallyveil.gate.strategies.translated import Saving
from tallyveil.knowledge import Rows, Sequences

__all__ = ["Answered", "Forecast", "LookIntervals"]

LookIntervals: TypeAlias = Mapping[str, tuple[Sequences, ...]]
"""By table and column: intervals over all looks."""


@dataclass(frozen=True)
class Answered:
    """``columns[table][c][i]`` is row i of column c, None if only history was asked and does not
    determine it; ``summed`` has the same for the columns summed up from them.

    ``noise``: the noise wanted for each table. ``quote``: what was charged for ``bought`` rows,
    None if nothing was. ``raised``: they are more precise than the target asks, since a statement
    has a least cost. ``apart``: to what the reported rows need not add up.
    """

    columns: Mapping[str, Rows]
    noise: Mapping[str, Noise]
    quote: Quote | None
    bought: int = 0
    raised: bool = False
    apart: frozenset[str] = frozenset()
    summed: Mapping[str, Rows] = field(default_factory=dict)
    statistics: Mapping[str, Sequence[FoundStatistic]] = field(default_factory=dict)
    """By table: what each histogram's statistic is."""


@dataclass(frozen=True)
class Forecast:
    """What a request would do. ``found`` is what history knows. ``bought`` rows would be bought,
    with the noise of ``noise`` or, for a half-width, as much more as history allows:
    ``scales[table][c]`` for column c, if rows of it would be bought. ``refused`` is the refusal by
    the inference control, None if it would allow the purchase."""

    found: Mapping[str, Rows]
    bought: int
    noise: Mapping[str, Noise]
    scales: Mapping[str, Mapping[int, float]]
    quote: Quote | None
    refused: InsufficientPrivilege | None = None
    savings: Mapping[str, Saving] = field(default_factory=dict)
    """By table: what charging other rows saves, where counts are exact."""
    spreads: Mapping[str, Spread] = field(default_factory=dict)
    """By table: how far noise spreads that would be drawn jointly."""
    comparisons: Mapping[str, ErrorComparison] = field(default_factory=dict)
    """By table: how far Gaussian noise is from the best, where counts are exact."""
    summed: Mapping[str, Rows] = field(default_factory=dict)
    """By table, but for those bought in parts: how precisely the rows that are summed up would be
    known, or better."""
    parts: Mapping[str, int] = field(default_factory=dict)
    """By table: in how many columns of parts the rows would be bought."""
    statistics: Mapping[str, Sequence[FoundStatistic]] = field(default_factory=dict)
    """By table: what is known of each histogram's statistic, and how it would be bought."""
