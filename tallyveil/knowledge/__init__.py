"""What is known about a table: its released answers and exact rows, and estimates from them.

This room reads the ledger's records and answers "what is known about this row, and how precisely":
for the decision, intervals and claims, top-ups, inference control, hints and EXPLAIN. It reads no
confidential data and spends nothing. Other rooms import from here, and from no file of this room.
"""

from tallyveil.knowledge.all_looks import Sequences
from tallyveil.knowledge.answers.aim import Aim
from tallyveil.knowledge.answers.answers import Answers, IntervalEnds, interval_ends
from tallyveil.knowledge.answers.errors import Error
from tallyveil.knowledge.answers.estimate import Estimate
from tallyveil.knowledge.answers.known import EstimatedInterval, Known, total
from tallyveil.knowledge.answers.precision import Precision, Preview, too_complex
from tallyveil.knowledge.found import Bought, Found, Rows
from tallyveil.knowledge.joint_errors import JointErrors, joint_errors, sums_with_noises
from tallyveil.knowledge.knowledge import Knowledge
from tallyveil.knowledge.quantiles import CountedQuantile, counted_quantiles
from tallyveil.knowledge.statistics import DrawnStatistic, StatisticHistory

__all__ = [
    "Aim",
    "Answers",
    "Bought",
    "CountedQuantile",
    "DrawnStatistic",
    "Error",
    "Estimate",
    "EstimatedInterval",
    "Found",
    "IntervalEnds",
    "JointErrors",
    "Knowledge",
    "Known",
    "Precision",
    "Preview",
    "Rows",
    "Sequences",
    "StatisticHistory",
    "counted_quantiles",
    "interval_ends",
    "joint_errors",
    "sums_with_noises",
    "too_complex",
    "total",
]
