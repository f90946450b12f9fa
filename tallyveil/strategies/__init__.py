"""Strategies: sets of counts worth releasing at once, so that later questions are free.

What lives here turns a strategy into a workload and says which of its counts make up typical
questions (the strategy A and the workload W of the matrix mechanism). Public facts only: nothing
is charged, drawn or read.
"""

from tallyveil.strategies.parse import parse_strategy
from tallyveil.strategies.strategy import MAX_COUNTS, Strategy, Typical

__all__ = ["MAX_COUNTS", "Strategy", "Typical", "parse_strategy"]
