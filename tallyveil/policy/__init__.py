"""The custodian's declarations, validated: what is protected, by which domain, at what budget.

Only public facts live here; nothing in this room opens the source. `declaration` mirrors the
file, `model` is what the other rooms use, and `load` turns the one into the other. A policy with
any mistake is refused, with one message per mistake; so is a key that this version does not
enforce.
"""

from tallyveil.policy.domain import Attribute, Domain
from tallyveil.policy.limits import Limits
from tallyveil.policy.load import load_policy, parse_policy, read_policy
from tallyveil.policy.model import (
    Budget,
    CountRange,
    Defaults,
    InferenceControl,
    Invariant,
    Policy,
    PrivacyUnit,
    PublicTable,
    Source,
    Table,
)
from tallyveil.policy.server import CatalogChoice, Certificate, Serving, serving_options
from tallyveil.policy.summary import summary

__all__ = [
    "Attribute",
    "Budget",
    "CatalogChoice",
    "Certificate",
    "CountRange",
    "Defaults",
    "Domain",
    "InferenceControl",
    "Invariant",
    "Limits",
    "Policy",
    "PrivacyUnit",
    "PublicTable",
    "Serving",
    "Source",
    "Table",
    "load_policy",
    "parse_policy",
    "read_policy",
    "serving_options",
    "summary",
]
