"""Sanitised copies: a table perturbed record by record, released once, then free to query.

This room plans which mechanism perturbs which columns at which ε, carries out the release (charge,
then noise, then a file that appears whole or not at all), and reads the description in such a file,
by which counts are debiased. The one-record mechanisms and their costs are in `mechanisms`, which
also opens sealed records.
"""

from tallyveil.sanitise.bounds import least_error
from tallyveil.sanitise.copy_parts import CopyOptions
from tallyveil.sanitise.copy_plan import CopyPlan, PlannedPart, plan
from tallyveil.sanitise.copy_release import sanitise
from tallyveil.sanitise.description import Copy, PerturbedPart, read_copies

__all__ = [
    "Copy",
    "CopyOptions",
    "CopyPlan",
    "PerturbedPart",
    "PlannedPart",
    "least_error",
    "plan",
    "read_copies",
    "sanitise",
]
