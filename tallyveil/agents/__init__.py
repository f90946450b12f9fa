"""Agents: several custodians, each with a part of the counts, whose totals are published exactly.

::

    plan       the counts and their noise: a public file, the same for all agents
    secret     the file with the key of the next release, and the past releases
    release    one agent's part of one release: begun, charged, drawn, stored
    parts      parts as files, and the sums of several parts

Each agent has a source, a policy and a ledger of its own, and sees no data of the others. This room
derives noise from a shared secret (`mechanisms.constrained.agent_noise`) that adds up to 0 over all
agents, and ensures that no noise is used twice.
"""

from tallyveil.agents.agent_parts import AgentPart, Combined, combined
from tallyveil.agents.agent_release import agreement, release
from tallyveil.agents.release_plan import ReleasePlan, load_plan
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
