"""Mechanisms put to the test: what they claim, proved where it can be, refuted where it is wrong.

A finite law is proved in rational arithmetic. A sampler cannot be proved by its outputs; it is
drawn on neighbouring inputs the way a release draws it, and a confidence lower bound on its ε, a
law its noise does not follow, or a mean that is not 0 refutes it. Nothing here meets confidential
data: the inputs are made up.
"""

from tallyveil.audit.finding import FALSE_ALARM, Finding
from tallyveil.audit.running import audit, audits

__all__ = ["FALSE_ALARM", "Finding", "audit", "audits"]
