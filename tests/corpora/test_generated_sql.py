"""Generated SQL, end to end: the answers are the raw table's, and refusals tell nothing of it.

`queries` and `refusals` write statements from a seed, `lab` asks them of tallyveil (in process in
DuckDB's dialect, over the wire in PostgreSQL's) without noise, and of DuckDB and PostgreSQL on the
same rows. Nothing here is left to chance: a seed and a size are a statement.

`make fuzz-sql` runs many more: SEED, SIZE (1 to 5, 0 for all) and STATEMENTS say which. Without a
SEED it begins elsewhere each time, and the suite begins elsewhere each day.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence

import pytest

from tests.corpora.house import silent
from tests.corpora.lab import Lab, case

# Refused besides those that must be: limits that the documentation names. One in a hundred is.
_ANSWERED = 0.98
_AT_LEAST = 0.85
_CHUNK, _LONG_CHUNK = 40, 500
_GOOD = ("answered", "refused")

_SUITE = 80
_SEED = int(os.environ.get("FUZZ_SEED", "100000"))
_SIZE = int(os.environ.get("FUZZ_SIZE", "0"))
_LONG = int(os.environ.get("FUZZ_STATEMENTS", "4000"))


@pytest.fixture(scope="module")
def lab(postgres_uri: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with silent():
        made = Lab(tmp_path_factory.mktemp("lab"), postgres_uri)  # empty until it is renewed
        yield made
        made.close()


def run(lab: Lab, seeds: range, sizes: Sequence[int], least: float) -> None:
    """Ask every statement, of the sizes in turn, and say how many were answered."""
    found: Counter[tuple[str, bool]] = Counter()
    said = []
    for seed in seeds:
        if seed % 4 == 0:
            lab.use("auto" if seed % 8 else "fresh")
        own = sizes[seed // 4 % len(sizes)]
        asked = case(seed, own)
        verdict, words = lab.verdict(asked, both=seed % 8 == 0)
        if verdict not in _GOOD:
            pytest.fail(lab.explain(seed, own, verdict), pytrace=False)
        found[verdict, asked.refused] += 1
        if verdict == "refused" and not asked.refused:
            said.append(f"seed {seed} size {own}: {words}\n  {asked.statement.sql}")
    answered, refused = found["answered", False], found["refused", False]
    print(f"{answered} answered, {refused} refused, {found['refused', True]} rightly refused")
    assert answered >= least * (answered + refused) - 2, "\n".join(said)


@pytest.mark.parametrize("start", range(0, _SUITE, _CHUNK))
def test_statements(lab: Lab, start: int) -> None:
    lab.renew()
    first = start + _SUITE * int(time.time() // 86_400)
    run(lab, range(first, first + _CHUNK), (1, 2, 1, 2, 3), _AT_LEAST)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(_SEED, _SEED + _LONG, _LONG_CHUNK))
def test_statements_long(lab: Lab, start: int) -> None:
    lab.renew()
    run(
        lab,
        range(start, min(start + _LONG_CHUNK, _SEED + _LONG)),
        [_SIZE] if _SIZE else [1, 2, 3, 4, 5],
        _ANSWERED,
    )
