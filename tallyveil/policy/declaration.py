"""The base of a policy's models: each is a table of keys, with the contradictions between them.

Validation collects the mistakes of all keys. The contradictions within a table are searched if its
own keys are right, so that each value there has its type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Self, TypeAlias, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError, PydanticKnownError

from tallyveil.cache import cached_property

__all__ = ["Declaration", "Derived", "Named", "conflict", "mistaken", "wrong"]

K = TypeVar("K")
T = TypeVar("T")

Named: TypeAlias = Annotated[Mapping[K, T], AfterValidator(MappingProxyType)]
"""Tables of keys by their names."""


def _no_key(value: Any) -> Any:
    raise PydanticKnownError("extra_forbidden")


Derived: TypeAlias = Annotated[T, PlainValidator(_no_key), Field(exclude=True)]
"""A field that other fields determine. A file that has a key of its name is refused."""


def wrong(expected: str) -> PydanticCustomError:
    """Return the error whose text completes "key = value: …"."""
    return PydanticCustomError("mistake", "{expected}", {"expected": expected})


def mistaken(value: Any, expected: str, *key: str | int) -> InitErrorDetails:
    """Return the contradiction that reads "key = value: …"; ``key`` is relative to the table."""
    return InitErrorDetails(type=wrong(expected), loc=key, input=value)


def conflict(text: str, *key: str | int) -> InitErrorDetails:
    """Return the contradiction that reads "key: …"."""
    kind = PydanticCustomError("conflict", "{text}", {"text": text})
    return InitErrorDetails(type=kind, loc=key, input=None)


class Declaration(BaseModel):
    """A table of keys. A field's description completes "key = value: expected …", unless its check
    has a more specific message. A field with ``repr=False`` may hold a secret.
    """

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        hide_input_in_errors=True,
        ignored_types=(cached_property,),
    )

    def conflicts(self) -> Iterator[InitErrorDetails]:
        """Yield the contradictions between keys, whose values are right."""
        yield from ()

    @model_validator(mode="after")
    def _no_conflicts(self) -> Self:
        found = list(self.conflicts())
        if found:
            raise ValidationError.from_exception_data(type(self).__name__, found, hide_input=True)
        return self
