"""Rows for a year of days of which each is asked once it is over, for tiles of a dashboard.

A tile is a set of rows q over the days of a year, asked as time goes by: each day; each week from
Monday to Sunday; the last n days; the year so far. Its error is the mean of its rows' variances,
and that of a dashboard the sum over its tiles, tr(Q X^-1) with Q = Σ_tiles mean of q qᵀ and X the
precision of all rows. A day pays the diagonal of X, which may be 1.

**Gaussian noise.** The X of least error, by the fixed point of `root`, is X = LᵀL with L lower
triangular: row t of L has coefficients of days up to t alone, so it can be bought when day t is
over, at no loss (Denisov, McMahan, Rush, Smith & Thakurta 2022, "Improved Differential Privacy for
SGD via Optimal Private Linear Operators on Adaptive Streams").

**Laplace noise.** Sums of 1, 7 or 28 days, each level with a share of ε: of these trees, and of the
shares in steps of 1/64, those of least error (Chan, Shi & Song 2011, "Private and Continual Release
of Statistics", has the binary one).
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np

from tallyveil.arrays import FloatArray, IntArray
from tallyveil.blas import one_thread
from tallyveil.inference.canonical import nearest_integers

__all__ = ["Online", "dashboard_error", "online_root", "online_tree", "tile_rows"]

_STEPS: Final = 20  # of the fixed point: 1.0001 of the optimum of a year
_LARGEST: Final = 1 << 12
_LEVELS: Final = ((1,), (1, 7), (1, 28), (1, 7, 28))
_SHARES: Final = 64
_LOOKS: Final = 39  # days between those at which trees are compared: no sum ends at all of them


@dataclass(frozen=True)
class Online:
    """Row i, of integer coefficients ``rows[i]``, can be bought once day ``ready[i]`` is over. It
    has the share ``shares[i]`` of a day's budget: of ε, or of ρ if it is None for all rows."""

    rows: IntArray
    ready: IntArray
    shares: tuple[Fraction, ...] | None


def tile_rows(tile: str, first: dt.date, days: int) -> FloatArray:
    """The rows of a tile over the days from ``first`` on."""
    if tile == "week":
        starts = range(-first.weekday() % 7, days - 6, 7)
        return _sums([(start, start + 7) for start in starts], days)
    if tile == "year":
        return _sums([(0, end + 1) for end in range(days)], days)
    found = re.fullmatch(r"(\d+) days", tile)
    width = int(found[1]) if found else 1
    return _sums([(max(0, end + 1 - width), end + 1) for end in range(days)], days)


def _sums(spans: Sequence[tuple[int, int]], days: int) -> FloatArray:
    rows = np.zeros((len(spans), days))
    for row, (start, end) in zip(rows, spans, strict=True):
        row[start:end] = 1
    return rows


def dashboard_error(tiles: Sequence[FloatArray], precision: FloatArray) -> float:
    """Σ over tiles of the mean variance of their rows: tr(Q X^-1)."""
    return float(np.trace(_gram(tiles) @ np.linalg.inv(precision)))


def _gram(tiles: Sequence[FloatArray]) -> FloatArray:
    found = np.zeros((tiles[0].shape[1], tiles[0].shape[1]))
    for rows in tiles:
        found += rows.T @ rows / max(1, len(rows))
    return found


def online_root(tiles: Sequence[FloatArray]) -> Online:
    """The rows L for Gaussian noise of one deviation, as integers of 12 bits."""
    with one_thread():
        gram = _gram(tiles) + 1e-9 * np.eye(tiles[0].shape[1])
        p = np.full(len(gram), 1 / len(gram))
        for _ in range(_STEPS):
            half = np.sqrt(p)
            values, vectors = np.linalg.eigh(gram * np.outer(half, half))
            values = np.sqrt(np.clip(values, 0, None))
            diagonal = (vectors**2 * values).sum(axis=1)
            p = diagonal / diagonal.sum()
        norm = np.sqrt(diagonal)
        precision = (vectors * values) @ vectors.T / np.outer(norm, norm)
        backwards = np.linalg.cholesky(precision[::-1, ::-1])
    lower = backwards[::-1, ::-1].T
    rows = nearest_integers(lower * (_LARGEST / np.abs(lower).max())).astype(np.int64)
    return Online(rows, np.arange(len(rows)), None)


def online_tree(tiles: Sequence[FloatArray], first: dt.date) -> Online:
    """Sums of days, and their shares of ε."""
    days = tiles[0].shape[1]
    looks = [*range(min(days, _LOOKS), days + 1, _LOOKS)]
    found = []
    with one_thread():
        for levels in _LEVELS:
            nodes = [_nodes(level, first, days) for level in levels]
            if all(nodes):
                shares = _best_shares(tiles, nodes, looks)
                error = round(_tree_error(tiles, nodes, shares, looks), 6)
                found.append((error, len(levels), nodes, shares))
    _, _, nodes, shares = min(found, key=lambda one: one[:2])
    spans = [span for level in nodes for span in level]
    pairs = zip(nodes, shares, strict=True)
    each = [Fraction(share, _SHARES) for level, share in pairs for _ in level]
    rows = _sums(spans, days).astype(np.int64)
    return Online(rows, np.array([end - 1 for _, end in spans]), tuple(each))


def _nodes(level: int, first: dt.date, days: int) -> list[tuple[int, int]]:
    start = 0 if level == 1 else -first.weekday() % 7
    return [(at, at + level) for at in range(start, days - level + 1, level)]


def _best_shares(
    tiles: Sequence[FloatArray], nodes: Sequence[list[tuple[int, int]]], looks: Sequence[int]
) -> tuple[int, ...]:
    """By steps that halve, from even shares: each moves a part from one level to another."""
    number = len(nodes)
    shares = [_SHARES // number] * number
    shares[0] += _SHARES - sum(shares)
    best = _tree_error(tiles, nodes, shares, looks)
    step = _SHARES // 4
    while step:
        moved = [
            (round(_tree_error(tiles, nodes, other, looks), 9), other)
            for other in _moves(shares, step)
        ]
        error, other = min(moved, default=(best, shares))
        if error < best:
            best, shares = error, other
        else:
            step //= 2
    return tuple(shares)


def _moves(shares: Sequence[int], step: int) -> Iterator[list[int]]:
    for giver in range(len(shares)):
        for taker in range(len(shares)):
            if giver != taker and shares[giver] > step:
                moved = list(shares)
                moved[giver] -= step
                moved[taker] += step
                yield moved


def _tree_error(
    tiles: Sequence[FloatArray],
    nodes: Sequence[list[tuple[int, int]]],
    shares: Sequence[int],
    looks: Sequence[int],
) -> float:
    """The mean over some days of the error of the tiles' last rows, from nodes that are complete.
    A node of share s has precision s²/2, as Laplace noise of scale 1/s."""
    total = 0.0
    for look in looks:
        precision = np.zeros((look, look))
        for level, share in zip(nodes, shares, strict=True):
            for start, end in level:
                if end <= look:
                    precision[start:end, start:end] += (share / _SHARES) ** 2 / 2
        last = []
        for rows in tiles:
            complete = rows[~rows[:, look:].any(axis=1)]
            if len(complete):
                last.append(complete[-1, :look])
        total += sum(float(row @ np.linalg.solve(precision, row)) for row in last)
    return total / len(looks)
