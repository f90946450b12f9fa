"""The mechanisms that perturb one record, by the names that copies give them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tallyveil.mechanisms.records.clamped_laplace import ClampedLaplace
from tallyveil.mechanisms.records.randomised_response import RandomisedResponse
from tallyveil.mechanisms.records.sanitiser import OneRecord
from tallyveil.mechanisms.records.series_noise import SeriesNoise
from tallyveil.mechanisms.records.set_response import SetResponse

__all__ = ["RECORD_LAWS"]

_EVERY: Final[tuple[type[OneRecord], ...]] = (
    RandomisedResponse,
    ClampedLaplace,
    SetResponse,
    SeriesNoise,
)

RECORD_LAWS: Final[Mapping[str, type[OneRecord]]] = MappingProxyType(
    {str(law.name): law for law in _EVERY}
)
