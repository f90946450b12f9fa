"""Put faults into a copy of the package, one at a time, and report which the tests find.

    make mutants                          those of faults.toml
    make mutants SAMPLED=300 SEED=1       and others, sampled by rule
    make mutants ROOM=gate                of one room
    make mutants JOBS=2                   so many at a time

It prints a JSON object for each fault, and at the end one for each room. It ends with status 1 if
a chosen fault is not found; of those that are sampled, the share counts.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue

from tests.mutants.mutation import ROOT, Mutation, chosen_faults, room_of
from tests.mutants.operators import sampled_faults
from tests.mutants.suite import Executed, Outcome, record, tried


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("--sampled", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--room")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--data", type=Path, default=ROOT / ".mutants")
    return parser.parse_args()


def _outcomes(mutations: list[Mutation], executed: Executed, jobs: int) -> list[Outcome]:
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as place:
        folders: SimpleQueue[Path] = SimpleQueue()
        for job in range(jobs):
            folders.put(Path(place) / str(job))

        def one(mutation: Mutation) -> Outcome:
            folder = folders.get()
            try:
                text = (ROOT / mutation.path).read_text(encoding="utf-8")
                return tried(mutation, executed.of(mutation, text), folder)
            finally:
                folders.put(folder)

        with ThreadPoolExecutor(jobs) as pool:
            for done in as_completed([pool.submit(one, mutation) for mutation in mutations]):
                outcomes.append(done.result())
                print(outcomes[-1].as_json(), flush=True)
    return outcomes


def main() -> int:
    options = _arguments()
    if not options.data.exists() and record(options.data) != 0:
        options.data.unlink(missing_ok=True)
        print("the tests fail without a fault", file=sys.stderr)
        return 2
    chosen = chosen_faults()
    mutations = chosen + sampled_faults(options.sampled, options.seed)
    if options.room:
        mutations = [one for one in mutations if room_of(one.path) == options.room]
    outcomes = _outcomes(mutations, Executed.read(options.data), options.jobs)
    tried_in = Counter(room_of(one.mutation.path) for one in outcomes)
    found_in = Counter(room_of(one.mutation.path) for one in outcomes if one.found)
    for room in sorted(tried_in):
        print(json.dumps({"room": room, "faults": tried_in[room], "found": found_in[room]}))
    return int(any(one.found is None and one.mutation in chosen for one in outcomes))


if __name__ == "__main__":
    sys.exit(main())
