"""What the plans of a table that grows buy: each row once, when the days it counts are over.

A plan's rows for a year are chosen beforehand (`online`), kept in a sealed file, and bought at the
publication after which their last day is over, for all groups at once. Together they cost each
record at most the plan's budget, which is kept from all other questions. A row that was charged is
never bought again, even if its answer was lost.
"""

from __future__ import annotations

import datetime as dt
import logging
import math
import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import partial, reduce
from typing import Final

import numpy as np
from scipy import sparse

from tallyveil.accountant import Charge, is_plan
from tallyveil.cube import SealedFiles
from tallyveil.errors import TallyveilError
from tallyveil.events import report
from tallyveil.gate.growth.editions import Versions
from tallyveil.gate.shared import Shared
from tallyveil.gate.strategies.offer import Offer
from tallyveil.inference.designs.online import Online, online_root, online_tree, tile_rows
from tallyveil.mechanisms import mechanism
from tallyveil.mechanisms.units import UNIT
from tallyveil.policy import PlanDeclaration, Table
from tallyveil.rewriter import Absent
from tallyveil.workload.refinement import Refinement
from tallyveil.workload.workload import Column, Factor, Workload

__all__ = ["buy_plans", "lost_answers"]

_ABOVE: Final = 1 + 1e-9  # of a scale, which is a double
_UNIT: Final = Fraction(1, UNIT)
_ROW: Final = re.compile(r": (\d+), row of (\d+ days to )?day (\d+)$")  # as `_offers` names it


def buy_plans(gate: Shared) -> list[str]:
    """Buy all rows of all plans whose days are over and that were never bought. Where one cannot be
    bought, such as for want of budget, that is reported, and the others are bought; return what to
    tell the custodian of it."""
    told, files = list[str](), gate.editions.versions.files
    for name, version in gate.editions.now.versions.items():
        table = gate.policy.tables[name]
        if not table.plans or version.through is None:
            continue
        with files.locked():
            every = gate.accountant.history(name)
            known = {entry.sql for entry in every if is_plan(entry.analyst)}
            for plan in table.plans:
                failed = dict[str, str]()
                for offer in _offers(table, plan, version.through, gate.editions.versions, known):
                    try:
                        gate.decision.buy(offer, f"plan {plan}")
                    except TallyveilError as error:
                        failed[offer.charge.sql] = error.message
                if failed:
                    row, reason = next(iter(failed.items()))
                    about = {"plan": plan, "rows": len(failed), "first": row, "reason": reason}
                    report("not bought", level=logging.ERROR, table=name, **about)
                    told.append(f"{name}: {len(failed)} rows of plan {plan} not bought: {reason}")
    return told


def lost_answers(gate: Shared) -> dict[str, list[str]]:
    """By table what its plans have charged and nobody will answer, such as "plan board, day
    2026-11-03". It is not bought again: its cost is spent."""
    found = dict[str, list[str]]()
    with gate.editions.versions.files.locked():  # so that no other process is buying
        unanswered = gate.accountant.unanswered()
        tables = [name for name, one in gate.policy.tables.items() if one.grows]
        for name in tables if unanswered else ():
            first = gate.policy.tables[name].day_range[0]
            for entry in gate.accountant.charges(name):
                if entry.charge_id in unanswered and is_plan(entry.analyst):
                    for row in _ROW.finditer(entry.sql):
                        start = max(first, dt.date(int(row[1]), 1, 1))
                        last = start + dt.timedelta(days=int(row[3]) - 1)
                        words = f"{entry.analyst}, {row[2] or 'day '}{last}"
                        found.setdefault(name, []).append(words)
    return found


def _offers(
    table: Table, plan: str, through: dt.date, versions: Versions, known: set[str]
) -> Iterator[Offer]:
    """The rows that are ready and were never charged, oldest first."""
    first, last = table.day_range
    for year in range(first.year, through.year + 1):
        start, end = max(first, dt.date(year, 1, 1)), min(last, dt.date(year, 12, 31))
        declared = table.plans[plan]
        by = f" by {', '.join(declared.by)}" if declared.by else ""
        named = f"plan {plan} of {table.name}{by} for {', '.join(declared.tiles)}: {year}, row "
        over = (min(through, end) - start).days
        online = _online(table, plan, start, (end - start).days + 1, versions.files)
        for number in np.lexsort((-online.rows.sum(axis=1), online.ready)).tolist():
            ready = int(online.ready[number])
            days = int((online.rows[number] != 0).sum())
            words = f"{named}of day {ready + 1}"
            if online.shares is not None and days > 1:
                words = f"{named}of {days} days to day {ready + 1}"
            if ready <= over and words not in known:
                absent = versions.absent.get(table.name, ())
                yield _offer(table, table.plans[plan], online, number, start, words, absent)


def _online(table: Table, plan: str, start: dt.date, days: int, files: SealedFiles) -> Online:
    """The rows of a plan for one year, as they were chosen first."""
    declared, pure = table.plans[plan], table.budget.pure
    name = f"{table.name}.{plan}.{start.year}.plan"
    about = {"tiles": list(declared.tiles), "start": str(start), "days": days, "pure": pure}
    found = files.read(name)
    if found is not None and {key: found[0].get(key) for key in about} == about:
        shares, (rows, ready) = found[0]["shares"], found[1]
        each = None if shares is None else tuple(map(Fraction, shares))
        return Online(rows.astype(np.int64).reshape(-1, days), ready.astype(np.int64), each)
    tiles = [tile_rows(tile, start, days) for tile in declared.tiles]
    online = online_tree(tiles, start) if pure else online_root(tiles)
    texts = None if online.shares is None else [str(share) for share in online.shares]
    files.write(name, {**about, "shares": texts}, [online.rows.ravel(), online.ready])
    return online


def _offer(
    table: Table,
    plan: PlanDeclaration,
    online: Online,
    number: int,
    start: dt.date,
    words: str,
    absent: Sequence[Absent],
) -> Offer:
    """The row, for each group, at the noise that is its part of the plan's budget. It leaves out
    what is ``absent``, as questions do."""
    days = table.days
    cells = online.rows[number].nonzero()[0]
    offset = days.cells.index(start)
    zeros = np.zeros(len(cells), dtype=np.int64)
    row = Factor((days.name,), (days.size,), 1, zeros, cells + offset, online.rows[number, cells])
    beside = [one for one in absent if offset + int(cells[0]) <= days.cells.index(one.through)]
    tied = {days.name, *(one.attribute for one in beside)}
    parts = {
        name: row if name == days.name else _part(table, name, name in plan.by)
        for name in table.domain.names
        if name in tied or name in plan.by
    }
    factors = [part for name, part in parts.items() if name not in tied]
    factors.append(_without(table, [parts[name] for name in parts if name in tied], beside))
    joint = {name: np.array(own, dtype=np.int64) for name, own in table.domain.joint.items()}
    column = Refinement(table.domain.names, joint, {}).column(Column(tuple(factors)))
    workload = Workload(table.name, (column,))
    name, scale = _noise(online, number, plan, table)
    charge = Charge(workload, name, (scale,), words)
    rows = np.arange(workload.columns[0].height, dtype=np.int64)
    return Offer(charge, charge, mechanism(name), (0,), (rows,))


def _noise(online: Online, number: int, plan: PlanDeclaration, table: Table) -> tuple[str, float]:
    """The mechanism and its scale, where a unit has r rows in a window of w days.

    Laplace: b = r/(share ε), since a day is in at most one sum of each level; twice that under
    replace. Gaussian: all rows have σ² = (r²/w) max_j Σ_i v_i L_ij²/(2ρ), v_i = min(w, m_i), where
    row i depends on m_i days (`Adjacency`). Under replace that is the largest of
    Σ_i v_i (L_ij − L_ik)², for two days of one group, and Σ_i v_i (L_ij² + L_ik²), of two. The loss
    of each is counted in whole units, rounded up, so ε and ρ are less by a unit for each.
    """
    unit, once = table.privacy_unit, table.neighbours == "add_remove"
    if online.shares is not None:
        share = online.shares[number] * (plan.budget.epsilon or Fraction(1)) - _UNIT
        return "laplace", float(unit.protected_rows * (1 if once else 2) / share) * _ABOVE
    days = np.minimum((online.rows != 0).sum(axis=1), unit.window)
    rows = online.rows.astype(np.float64)  # of 12 bits, so all sums are exact
    gram = rows.T @ (days[:, None] * rows)
    own = gram.diagonal()
    apart = 0.0 if once else float((own[:, None] + own - 2 * gram).max())
    most = max(apart, float(own.max()) * (1 if once else 2))
    most *= unit.protected_rows**2 / unit.window
    rho = (plan.budget.rho or Fraction(1)) - len(online.rows) * _UNIT
    return "gaussian", math.sqrt(most / (2 * float(rho))) * _ABOVE


def _part(table: Table, name: str, each: bool) -> Factor:
    """A row for each cell of an attribute, or one for all."""
    shape = (table.domain[name].size,)
    return Factor.identity((name,), shape) if each else Factor.everything((name,), shape)


def _without(table: Table, parts: Sequence[Factor], absent: Sequence[Absent]) -> Factor:
    """The product of factors of one axis each, without the cells that are ``absent``."""
    if len(parts) == 1:
        return parts[0]
    axes = tuple(axis for part in parts for axis in part.axes)
    shape = tuple(part.size for part in parts)
    matrix = reduce(partial(sparse.kron, format="csr"), [part.sparse() for part in parts])
    there = np.ones(shape, dtype=np.bool_)
    for one in absent:
        days = np.arange(table.days.size) <= table.days.cells.index(one.through)
        cells = np.isin(np.arange(table.domain[one.attribute].size), one.cells)
        grid = np.meshgrid(*(np.arange(size) for size in shape), indexing="ij", sparse=True)
        there &= ~(days[grid[axes.index(one.days)]] & cells[grid[axes.index(one.attribute)]])
    kept: sparse.csr_matrix = matrix.multiply(there.ravel()).tocsr().astype(np.int64)
    return Factor.of_sparse(axes, shape, kept)
