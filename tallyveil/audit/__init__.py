"""Tests of the mechanisms' guarantees: proofs where possible, statistical tests elsewhere.

A finite law is proved in rational arithmetic. The outputs of a sampler prove nothing, but can
refute its guarantee. It is drawn on neighbouring inputs as in a release. A confidence lower bound
on ε above the claim, noise that does not follow its law, or a mean other than 0 refutes it. This
room reads no confidential data: the inputs are synthetic.
"""

from tallyveil.audit.finding import FALSE_ALARM, Finding
from tallyveil.audit.running import audit, audits

__all__ = ["FALSE_ALARM", "Finding", "audit", "audits"]
