"""The same statements buy, cost and announce the same, whatever the processor and the threads."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

# The kernels of OpenBLAS, what they need, and what NumPy and the C library leave out with them.
_KERNELS = {
    "Prescott": ("sse3", "AVX2 FMA3 AVX F16C", "-AVX,-AVX2,-FMA"),
    "Sandybridge": ("avx", "AVX2 FMA3", "-AVX2,-FMA"),
    "Haswell": ("avx2 fma", "", ""),
    "SkylakeX": ("avx512f avx512dq avx512bw avx512vl", "", ""),
}


def offered() -> list[str]:
    found = Path("/proc/cpuinfo")
    if platform.machine() != "x86_64" or not found.exists():
        return []
    flags = next((one for one in found.read_text().splitlines() if one.startswith("flags")), "")
    own = {*flags.replace("pni", "sse3").split()}
    return [name for name, (needed, *_) in _KERNELS.items() if own.issuperset(needed.split())]


def start(kernel: str, threads: int) -> subprocess.Popen[str]:
    _, numpy_without, libc_without = _KERNELS[kernel]
    own = {
        "OPENBLAS_CORETYPE": kernel,
        "OPENBLAS_NUM_THREADS": str(threads),
        "NPY_DISABLE_CPU_FEATURES": numpy_without,
        "GLIBC_TUNABLES": f"glibc.cpu.hwcaps={libc_without}" if libc_without else "",
    }
    return subprocess.Popen(
        [sys.executable, "-m", "tests.gate.purchases"],
        env=os.environ | {name: value for name, value in own.items() if value},
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.skipif(len(offered()) < 2, reason="one kind of kernels only")
@pytest.mark.parametrize(
    "kernels",
    [
        pytest.param(offered()[:: max(1, len(offered()) - 1)], id="oldest and newest"),
        pytest.param(offered(), id="all", marks=pytest.mark.slow),
    ],
)
def test_every_processor_buys_and_pays_the_same(kernels: list[str]) -> None:
    """Both a matrix product and a logarithm have other last digits there."""
    running = [start(kernel, 1 + n % 2) for n, kernel in enumerate(kernels)]
    printed = [one.communicate()[0] for one in running]
    assert [one.returncode for one in running] == [0] * len(running)
    first, *others = map(json.loads, printed)
    assert sum(sql.startswith("SELECT") for own in first.values() for sql, _ in own) == 26
    for kernel, other in zip(kernels[1:], others, strict=True):
        for session, expected in first.items():
            for (sql, told), (same, also) in zip(expected, other[session], strict=True):
                assert (sql, told) == (same, also), f"{kernels[0]}, {kernel}, {session}: {told}"
