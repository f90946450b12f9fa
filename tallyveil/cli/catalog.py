"""The catalog beside a server: found, started and ended with it."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tallyveil.catalog import Catalog
from tallyveil.catalog.binaries import NoPostgreSQL, find_binaries
from tallyveil.catalog.schema import setup
from tallyveil.errors import InvalidParameterValue
from tallyveil.events import report
from tallyveil.gate import Gate
from tallyveil.gate.shown import shown
from tallyveil.policy import CatalogChoice
from tallyveil.proxy.pgtypes import sql_type

__all__ = ["catalog_beside", "catalog_option"]


def catalog_option(given: str | None, declared: CatalogChoice) -> CatalogChoice:
    """What the command line says goes before the policy: a folder, or off."""
    if given is None:
        return declared
    return CatalogChoice(enabled=False) if given == "off" else CatalogChoice(binaries=Path(given))


@contextmanager
def catalog_beside(gate: Gate, choice: CatalogChoice) -> Iterator[Catalog | None]:
    """Start it, without waiting for it. None where there is no PostgreSQL to start. Raises
    InvalidParameterValue where one was named.
    """
    if not choice.enabled or sys.platform == "win32":
        yield None
        return
    from tallyveil.catalog.supervisor import Supervisor

    try:
        binaries = find_binaries(choice.binaries)
    except NoPostgreSQL as error:
        if choice.binaries is not None:
            raise InvalidParameterValue(f"catalog.binaries: {error}") from None
        report("no catalog", level=logging.WARNING, reason=str(error))
        yield None
        return
    gate.server_version = binaries.version
    supervisor = Supervisor(binaries, tuple(setup(shown(gate), sql_type)))
    policy = gate.policy
    names = {*policy.tables, *policy.public, *policy.views}
    with closing(supervisor), closing(Catalog(supervisor.address, names)) as catalog:
        supervisor.start()
        yield catalog
