"""Agents: several custodians, each with a part of the counts, whose totals are published exactly.

::

    plan       what all of them count, and at which noise: a public file, the same for everybody
    secret     the file with the key of the next release, and what was released so far
    release    one agent's part of one release: begun, charged, drawn, kept
    parts      parts as files, and several of them put together

Each agent has a source, a policy and a ledger of its own, and sees no data of the others. What
lives here derives the same noise at all of them (`mechanisms.constrained.shared`), such that it
adds up to nothing over all agents, and sees to it that no noise is used twice.
"""

from tallyveil.agents.parts import AgentPart, Combined, combined
from tallyveil.agents.plan import ReleasePlan, load_plan
from tallyveil.agents.release import agreement, release
from tallyveil.agents.secret import Secret

__all__ = [
    "AgentPart",
    "Combined",
    "ReleasePlan",
    "Secret",
    "agreement",
    "combined",
    "load_plan",
    "release",
]
