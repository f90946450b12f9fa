"""Mechanisms that perturb one record, and `sanitiser`, which perturbs every record of a table.

Each has a file of its own. Copies and the audit know those listed here.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from tallyveil.mechanisms.records.clamped_laplace import ClampedLaplace
from tallyveil.mechanisms.records.one_record import OneRecord
from tallyveil.mechanisms.records.record_response import RandomisedResponse
from tallyveil.mechanisms.records.series_noise import SeriesNoise
from tallyveil.mechanisms.records.set_response import SetResponse

__all__ = [
    "RECORD_LAWS",
    "ClampedLaplace",
    "OneRecord",
    "PartKind",
    "RandomisedResponse",
    "SeriesNoise",
    "SetResponse",
]

PartKind: TypeAlias = Literal["response", "laplace", "set", "series"]

RECORD_LAWS: Final[Mapping[PartKind, type[OneRecord]]] = MappingProxyType(
    {
        "response": RandomisedResponse,
        "laplace": ClampedLaplace,
        "set": SetResponse,
        "series": SeriesNoise,
    }
)
"""The mechanisms for one record, by the kinds of parts of a copy that they perturb."""
