"""Which PostgreSQL answers questions about the catalogs: the policy's ``[catalog]``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from tallyveil.policy import checks

__all__ = ["CatalogChoice", "CatalogDeclaration", "catalog_choice"]


@dataclass(frozen=True)
class CatalogChoice:
    """``binaries`` is the folder of initdb and postgres, None for those of the extra `catalog`."""

    enabled: bool = True
    binaries: Path | None = None


class CatalogDeclaration(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    enabled: bool = Field(True, description="true or false")
    binaries: Annotated[str, BeforeValidator(checks.path)] | None = Field(
        None, description='a folder in quotes such as "/usr/lib/postgresql/16/bin"'
    )


def catalog_choice(declared: CatalogDeclaration, base: Path) -> CatalogChoice:
    """With a path relative to ``base``."""
    folder = None if declared.binaries is None else base / declared.binaries
    return CatalogChoice(declared.enabled, folder)
