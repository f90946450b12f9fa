"""What exact counts do to noisy ones: docs/experiments/invariants.md and two-views.md.

- Counties under state totals (SUBSPACE §5.1): errors by the size of the county, with and without
  nonnegativity, and the time of a statement with and without the totals.
- Campus (SUBSPACE §5.2): tables of 14 × 24 in each of 20 buildings, with both margins exact.
- What invariants buy: squared error at equal cost, against the bound that the least trace of a
  covariance has (the dual certificate of docs/mathematics.md).
- K-norms: squared error of noise on n counts of a known sum, by three mechanisms.
- One total of three: variances of conditioned and of projected noise.
- Taxi zones (TWO-VIEWS §4) and two densities: `bench.two_views`.

Populations are those of the 2010 census, and no others; campus has as many records in each cell.

    make bench NAME=invariants         `bench.invariants_pages` writes tables and figures of it
    SHARED=/data make bench NAME=invariants    …/data/us_county_population_2010.csv
"""

from __future__ import annotations

import csv
import itertools
import math
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt

import tallyveil
from bench import two_views
from bench.measure import report
from tallyveil.inference.estimates.least_trace import least_trace
from tallyveil.invariants import Span, design, translated
from tallyveil.mechanisms import Adjacency, sensitivity
from tallyveil.workload.workload import Column

SHARED = Path(os.environ.get("SHARED", "../shared"))
RUNS = int(os.environ.get("RUNS", "100"))
Floats = npt.NDArray[np.float64]

COUNTY = "SELECT county, count(*) AS n FROM person GROUP BY county ORDER BY county"
STATES = "SELECT left(county, 2) AS state, count(*) FROM person GROUP BY 1"
CAMPUS = {"building": 20, "hour": 14, "team": 24}


@contextmanager
def connected(table: Mapping[str, Any], epsilon: float, sql: str) -> Iterator[tallyveil.Connection]:
    """A gate over what ``sql`` gives."""
    with duckdb.connect() as source, tempfile.TemporaryDirectory() as base:
        source.execute(f"CREATE TABLE records AS {sql}")
        declared: dict[str, Any] = {"from": "records", "neighbours": "replace", **table}
        declared["budget"] = {"epsilon": 1e6}
        keys = {"tables": {"person": declared}, "defaults": {"epsilon": epsilon}}
        policy = tallyveil.parse_policy(keys, base=Path(base))
        connection = tallyveil.connect(policy, source=source)
        connection.execute("SET dp.source = fresh")
        yield connection
        connection.close()


def county_file() -> Path:
    return SHARED / "data" / "us_county_population_2010.csv"


def counties(*, exact: bool, epsilon: float) -> Any:
    with county_file().open(encoding="utf-8") as file:
        codes = sorted(
            f"{int(row['STATE']):02d}{int(row['COUNTY']):03d}" for row in csv.DictReader(file)
        )
    table: dict[str, Any] = {
        "count": "population",
        "attributes": {"county": {"values": codes}},
    }
    if exact:
        table["invariants"] = [{"sql": STATES}]
    return connected(
        table,
        epsilon,
        "SELECT printf('%02d%03d', STATE, COUNTY) AS county, CENSUS2010POP AS population"
        f" FROM read_csv('{county_file()}')",
    )


def truths() -> dict[str, int]:
    with county_file().open(encoding="utf-8") as file:
        return {
            f"{int(row['STATE']):02d}{int(row['COUNTY']):03d}": int(row["CENSUS2010POP"])
            for row in csv.DictReader(file)
        }


def errors(connection: tallyveil.Connection, truth: Mapping[str, int], runs: int) -> Floats:
    """Of each run and county."""
    found = []
    for _ in range(runs):
        told = dict(connection.execute(COUNTY).fetchall())
        found.append([told[county] - truth[county] for county in truth])
    return np.array(found, dtype=np.float64)


def slope(sizes: Floats, off: Floats) -> tuple[float, float]:
    """Of the runs' mean errors over log10 of the size, and its standard error over the runs."""
    x = np.log10(sizes)
    x = x - x.mean()
    each = off @ x / (x @ x)
    return float(each.mean()), float(each.std(ddof=1) / math.sqrt(len(each)))


def county_errors() -> None:
    truth = truths()
    sizes = np.array(list(truth.values()), dtype=np.float64)
    groups = np.array_split(np.argsort(sizes), 10)
    for epsilon, nonnegative in ((0.192, False), (0.00192, False), (0.00192, True)):
        with counties(exact=True, epsilon=epsilon) as connection:
            connection.execute(f"SET dp.nonnegative = {'on' if nonnegative else 'off'}")
            off = errors(connection, truth, RUNS)
        states: dict[str, Floats] = {}
        for number, county in enumerate(truth):
            states[county[:2]] = states.get(county[:2], np.zeros(len(off))) + off[:, number]
        missed = max(float(np.abs(sums).max()) for sums in states.values())
        found, error = slope(sizes, off)
        report(
            experiment="county slope", epsilon=epsilon, nonnegative=nonnegative, runs=RUNS,
            slope=round(found, 4), standard_error=round(error, 4), states_missed_by=missed,
        )  # fmt: skip
        illinois = [n for n, county in enumerate(truth) if county.startswith("17")]
        report(
            experiment="county deviation", epsilon=epsilon, nonnegative=nonnegative,
            counties=len(illinois), deviation=round(float(off[:, illinois].std()), 3),
            expected=round(2 / epsilon * math.sqrt(2 * (1 - 1 / len(illinois))), 3),
        )  # fmt: skip
        for number, group in enumerate(groups):
            mean = off[:, group].mean(axis=1)
            report(
                experiment="county bias", epsilon=epsilon, nonnegative=nonnegative,
                tenth=number + 1, median_size=float(np.median(sizes[group])),
                mean_error=round(float(mean.mean()), 4),
                standard_error=round(float(mean.std(ddof=1) / math.sqrt(len(mean))), 4),
            )  # fmt: skip


def timed(connection: tallyveil.Connection, sql: str, runs: int = 15) -> list[float]:
    """Milliseconds of processor time of each run, sorted, without the first."""
    times = []
    for _ in range(runs + 1):
        start = time.process_time()
        connection.execute(sql).fetchall()
        times.append((time.process_time() - start) * 1e3)
    return sorted(times[1:])


def report_times(statement: str, rows: int, without: list[float], exact: list[float]) -> None:
    report(
        experiment="time", statement=statement, rows=rows, without_ms=round(without[0], 1),
        with_ms=round(exact[0], 1), ratio=round(exact[0] / without[0], 2),
    )  # fmt: skip


def county_time() -> None:
    each = []
    for exact in (False, True):
        with counties(exact=exact, epsilon=0.192) as connection:
            each.append(timed(connection, COUNTY))
    report_times("GROUP BY county, 51 state totals", len(truths()), *each)


def campus() -> None:
    """Each element keeps √((1−1/14)(1−1/24)) of the noise's standard deviation."""
    attributes = {name: {"range": [0, size - 1]} for name, size in CAMPUS.items()}
    margins = [
        f"SELECT building, {name}, count(*) FROM person GROUP BY 1, 2" for name in ("hour", "team")
    ]
    records = (
        "SELECT b.i AS building, h.i AS hour, g.i AS team FROM range(20) b(i), range(14) h(i),"
        " range(24) g(i), range(10)"
    )
    plain = {"attributes": attributes}
    table = plain | {"invariants": [{"sql": sql} for sql in margins]}
    sql = "SELECT building, hour, team, count(*) AS n FROM person GROUP BY 1, 2, 3"
    with connected(table, 1.0, records) as connection:
        rank = 20 * (14 + 24 - 1)
        off = []
        for _ in range(10):
            rows = connection.execute(sql).fetchall()
            cells = np.zeros(tuple(CAMPUS.values()))
            for building, hour, team, n in rows:
                cells[building, hour, team] = n - 10
            off.append(cells)
        exact = timed(connection, sql)
    with connected(plain, 1.0, records) as connection:
        report_times("campus, both margins", len(rows), timed(connection, sql), exact)
    every = np.array(off)
    missed = max(float(np.abs(every.sum(axis=axis)).max()) for axis in (2, 3))
    noise = math.sqrt(2 * math.exp(-0.5)) / (1 - math.exp(-0.5))
    report(
        experiment="campus", outputs=math.prod(CAMPUS.values()), rank=rank,
        deviation_of_the_noise=round(noise, 4), share_kept=round(float(every.std() / noise), 4),
        expected=round(math.sqrt((1 - 1 / 14) * (1 - 1 / 24)), 5), margins_missed_by=missed,
    )  # fmt: skip


def smallest_ball(rows: Floats, exact: Floats) -> float:
    """The squared radius around the columns, modulo those of exact rows."""
    p = np.full(rows.shape[1], 1 / rows.shape[1])
    for _ in range(500):
        weighted = exact * p
        left = rows - rows @ weighted.T @ np.linalg.pinv(weighted @ exact.T) @ exact
        away = (left**2).sum(axis=0)
        if away.max() <= 1.0005 * (p @ away):
            break
        p = p * np.sqrt(away / (p @ away))
        p /= p.sum()
    return float(away.max())


def groups_within_totals(statement: str, sizes: list[int]) -> None:
    """Groups of records, with a total for each ``sizes`` of them: in closed form."""
    whole = sum(sizes)
    noisy = whole - len(sizes)
    report(
        experiment="bought", statement=statement, plain=whole, projected=noisy,
        charged=round(noisy * (1 - 1 / max(sizes)), 2), optimal=None,
        bound=round(sum((n - 1) ** 2 / n for n in sizes), 2),
    )  # fmt: skip


def prefixes_within_totals(statement: str, sizes: list[int]) -> None:
    """The sums of all groups up to each, with a total for each ``sizes`` of them. They are those of
    one total for each, since sums over what comes before are exact."""
    whole, noisy = sum(sizes), sum(sizes) - len(sizes)
    bounds = {n: least_trace(prefixes(n), np.ones((1, n))).bound for n in set(sizes)}
    report(
        experiment="bought", statement=statement, plain=whole**2, projected=noisy * whole,
        charged=round(noisy * smallest_ball(prefixes(max(sizes)), np.ones((1, max(sizes)))), 2),
        optimal=None, bound=round(sum(bounds[n] for n in sizes), 2),
    )  # fmt: skip


def bought() -> None:
    """Squared error of all rows together, times 2ρ, where a record more or less is charged: without
    exact counts, projected, as the gate charges it, by the rows of ``dp.mechanism = optimal``, and
    the least that Gaussian noise can have."""
    states: dict[str, int] = {}
    for county in truths():
        states[county[:2]] = states.get(county[:2], 0) + 1
    sizes = list(states.values())
    groups_within_totals("GROUP BY county, 51 state totals", sizes)
    groups_within_totals("GROUP BY county × sex, 51 state totals", [2 * n for n in sizes])
    prefixes_within_totals("all prefix sums of counties, 51 state totals", sizes)
    pairs: Floats = np.asarray(np.kron(np.eye(10), np.ones(2)), dtype=np.float64)
    cases: list[tuple[str, Floats, Floats]] = [
        ("GROUP BY 10 groups, total", np.eye(10), np.ones((1, 10))),
        ("GROUP BY 10 × 2, 10 totals", np.eye(20), pairs),
        ("3 of 4 groups, total", np.eye(4)[:3], np.ones((1, 4))),
        ("GROUP BY 3 × 4, both margins", np.eye(12), margins(3, 4)),
        ("8 prefixes, total", prefixes(8), np.ones((1, 8))),
        ("64 prefixes, total", prefixes(64), np.ones((1, 64))),
    ]
    for name, rows, exact in cases:
        sensitivity = float((rows**2).sum(axis=0).max())
        exact_rank = int(np.linalg.matrix_rank(exact))
        noisy = int(np.linalg.matrix_rank(np.vstack([rows, exact]))) - exact_rank
        report(
            experiment="bought", statement=name, plain=len(rows) * sensitivity,
            projected=noisy * sensitivity,
            charged=round(noisy * smallest_ball(rows, exact), 4),
            optimal=round(by_design(rows, exact), 4),
            bound=round(least_trace(rows, exact, 1.0005).bound, 4),
        )  # fmt: skip


def prefixes(number: int) -> Floats:
    return np.tril(np.ones((number, number)))


def by_design(rows: Floats, exact: Floats) -> float:
    """Of the integer rows that are bought, at what they are charged."""
    asked, declared = column(rows), column(exact)
    span = Span([declared], {"cell": rows.shape[1]})
    own = design([asked], span, np.arange(len(exact)), closed=False)
    if own is None:
        raise ValueError("too many rows")
    charged = translated(own.column, own.translate, [declared])
    if charged is None:
        raise ValueError("too many cells")
    cost = sensitivity(charged, Adjacency("add_remove"), "rho") / own.translate.denominator**2
    return float(cost * (own.deviations**2).sum())


def column(rows: Floats) -> Column:
    at, cells = np.nonzero(rows)
    entries = rows[at, cells].astype(np.int64)
    return Column.joint(("cell",), (rows.shape[1],), len(rows), at, cells, entries)


def margins(a: int, b: int) -> Floats:
    whole: Floats = np.vstack([np.kron(np.eye(a), np.ones(b)), np.kron(np.ones(a), np.eye(b))])
    return whole


def three() -> None:
    """Variance of one of three whole numbers whose sum is known: of discrete Laplace noise
    conditioned on the sum 0, by enumeration, and of noise projected onto it."""
    for scale, reach in ((1.0, 60), (2.0, 90), (10.0, 400)):
        weights = np.exp(-np.abs(np.arange(-reach, reach + 1)) / scale)
        total = squares = 0.0
        for u, v in itertools.product(range(-reach, reach + 1), repeat=2):
            if abs(u + v) <= reach:
                chance = weights[u + reach] * weights[v + reach] * weights[reach - u - v]
                total += chance
                squares += chance * u * u
        a = math.exp(-1 / scale)
        report(
            experiment="one of three", scale=scale, conditioned=round(squares / total, 6),
            continuous=round(5 * scale**2 / 6, 6),
            projected=round(2 * a / (1 - a) ** 2 * (1 - 1 / 3), 6),
        )  # fmt: skip


def k_norms() -> None:
    """E‖z‖² at ε = 1 of continuous noise on n counts whose sum is known."""
    for counts in (2, 3, 4, 10, 102):
        squares = (k_norm_draws(counts, 400 * RUNS) ** 2).sum(axis=1)
        report(
            experiment="k-norm", counts=counts, projected=2 * (counts - 1),
            k_norm=round(k_norm_square(counts), 4), drawn=round(float(squares.mean()), 3),
            standard_error=round(float(squares.std() / math.sqrt(len(squares))), 3),
            conditioned=round(conditioned_square(counts), 4),
        )  # fmt: skip


def k_norm_draws(counts: int, runs: int) -> Floats:
    """Of the density e^{−‖z‖} on Σ z = 0, ‖z‖ = min_t ‖z − t‖₁: less their median, n counts are one
    0, and others of which half are positive and half negative, with exponential sizes. The order
    makes no difference to their squares."""
    random = np.random.default_rng()  # for the figure: nothing confidential is released
    up = counts // 2
    sizes = random.exponential(size=(runs, counts))
    sizes[:, 0] = 0
    sizes[:, 1 + up :] *= -1
    found: Floats = sizes - sizes.mean(axis=1, keepdims=True)
    return found


def k_norm_square(counts: int) -> float:
    own = counts - 1
    return own * (2 - 1 / counts) if counts % 2 else 2 * own - 1


def conditioned_square(counts: int) -> float:
    """n(n−1)/4 · E[2/(k+1) + 2/(n−k+1)] over the number k of positive counts, whose weights are
    C(n, k) C(n−2, k−1)."""
    ks = range(1, counts)
    weights = [math.comb(counts, k) * math.comb(counts - 2, k - 1) for k in ks]
    terms = (w * (2 / (k + 1) + 2 / (counts - k + 1)) for k, w in zip(ks, weights, strict=True))
    return counts * (counts - 1) / 4 * math.fsum(terms) / sum(weights)


def main() -> None:
    two_views.main()
    k_norms()
    three()
    bought()
    campus()
    county_time()
    county_errors()


if __name__ == "__main__":
    main()
