"""Sanitised copies: a table perturbed record by record, released once, and free to query after.

What lives here plans which mechanism perturbs which columns at which ε, carries the release out
(charge, then noise, then a file that is whole or not there), and reads the description that such a
file carries, from which counts are debiased. The one-record mechanisms and what they cost are in
`mechanisms`; sealed records are opened there, too.
"""

from tallyveil.sanitise.bounds import least_error
from tallyveil.sanitise.description import Copy, PerturbedPart, read_copies
from tallyveil.sanitise.parts import CopyOptions
from tallyveil.sanitise.plan import CopyPlan, PlannedPart, plan
from tallyveil.sanitise.release import sanitise

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
