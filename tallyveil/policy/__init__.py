"""The custodian's declarations, validated: what is protected, by which domain, at what budget.

Only public facts live here; nothing in this room opens the source. `policy` is the model of the
whole file, and `policy_file` reads it. A policy with a mistake is refused, with one message per
mistake; so is a key that this version does not enforce.
"""

from tallyveil.policy.domain import Attribute, Domain, Key
from tallyveil.policy.growth.growth import PlanDeclaration
from tallyveil.policy.limits import Limits
from tallyveil.policy.policy import Defaults, Policy
from tallyveil.policy.policy_file import load_policy, parse_policy, read_policy
from tallyveil.policy.policy_summary import summary
from tallyveil.policy.server_options import CatalogChoice, Certificate, Serving, serving_options
from tallyveil.policy.source import Source
from tallyveil.policy.table_keys import (
    Budget,
    CountRange,
    InferenceControl,
    Invariant,
    PerUnit,
    PrivacyUnit,
)
from tallyveil.policy.tables import PublicTable, Table

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
    "Key",
    "Limits",
    "PerUnit",
    "PlanDeclaration",
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
