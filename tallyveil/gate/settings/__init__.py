"""A session's settings: the dp ones, and those PostgreSQL clients send when they connect."""

from tallyveil.gate.settings.dp import DESCRIPTIONS
from tallyveil.gate.settings.postgres import LISTS, REPORTED, SERVER_VERSION
from tallyveil.gate.settings.session import Answers, Objective, Settings, Target
from tallyveil.gate.settings.values import LEVELS

__all__ = [
    "DESCRIPTIONS",
    "LEVELS",
    "LISTS",
    "REPORTED",
    "SERVER_VERSION",
    "Answers",
    "Objective",
    "Settings",
    "Target",
]
