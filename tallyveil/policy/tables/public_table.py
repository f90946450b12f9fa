"""The public tables of a policy, and the files that they are read from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

from pydantic import Field, ValidationInfo, model_validator
from pydantic_core import InitErrorDetails

from tallyveil.policy.declaration import Derived, conflict
from tallyveil.policy.source import Source
from tallyveil.policy.tables.relation import Relation
from tallyveil.policy.value_checks import SourceFormat, SourceUrl

__all__ = ["PublicTable"]


class PublicTable(Relation):
    """A table that everyone may see: ``origin`` read from ``file``, or from the policy's source.

    No charge depends on it. A charge records the coefficients themselves, so a change of a public
    table affects later questions, but no past charge.
    """

    file: Derived[Source | None] = None
    url: SourceUrl | None = Field(default=None, repr=False)
    format: SourceFormat | None = None

    def conflicts(self) -> Iterator[InitErrorDetails]:
        if not self.origin and self.url is None:
            yield conflict('expected url = "…" or from = "…", or both')

    @model_validator(mode="after")
    def _resolve(self, info: ValidationInfo) -> Self:
        if self.url is None:
            return self
        declared = {"url": self.url, "format": self.format}
        file = Source.model_validate(declared, context=info.context)
        return self.model_copy(update={"file": file})

    def named(self, name: str) -> Self:
        """Return the table with its name, which is its key."""
        file = self.file and self.file.model_copy(update={"key": f"public.{name}.url"})
        return self.model_copy(update={"name": name, "origin": self.origin or name, "file": file})
