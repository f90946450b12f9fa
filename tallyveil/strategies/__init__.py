"""Strategies: sets of counts worth releasing at once, so that later questions are free.

This room turns a strategy into a workload, and lists which of its counts add up to the answers of
typical questions (the strategy A and the workload W of the matrix mechanism). Public facts only:
nothing is charged, drawn or read.
"""

from tallyveil.strategies.parse import parse_strategy
from tallyveil.strategies.strategy import MAX_COUNTS, Strategy, Typical

__all__ = ["MAX_COUNTS", "Strategy", "Typical", "parse_strategy"]
