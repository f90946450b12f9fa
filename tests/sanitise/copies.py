"""Copies as a policy serves them."""

from __future__ import annotations

from pathlib import Path

__all__ = ["serve_copy"]


def serve_copy(policy: Path) -> None:
    """Make the copy beside the policy one of its public tables."""
    with policy.open("a") as file:
        file.write('\n[public.copy]\nurl = "copy.parquet"\n')
