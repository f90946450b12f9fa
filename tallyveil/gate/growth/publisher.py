"""What publishes versions of a policy's tables, whichever way their data changes."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from tallyveil.accountant import (
    Account,
    LedgerStore,
    ReplacementRecord,
    VersionLog,
    publish_replacement,
    publish_version,
)
from tallyveil.cube import Passed, SealedFiles, Slice
from tallyveil.errors import InvalidParameterValue
from tallyveil.gate.declared.joint_tables import JointTables
from tallyveil.gate.growth.joint_slices import JointSlices
from tallyveil.gate.growth.publishing import Publishing, Version, version_of
from tallyveil.gate.growth.replacing import Replacing, read_slice_of
from tallyveil.policy import Policy, Table

__all__ = ["Publisher", "how_to_extend"]


@dataclass(frozen=True)
class Publisher:
    """Publishes days of tables that are ``growing``, and versions that are ``replacing`` rows."""

    growing: Publishing
    replacing: Replacing

    @classmethod
    def of(
        cls,
        policy: Policy,
        ledger: LedgerStore,
        accounts: Mapping[str, Account],
        log: VersionLog,
        files: SealedFiles,
    ) -> Publisher:
        about = files, ledger.key("rows"), log.of
        joint = JointSlices(JointTables.of(policy, ledger))
        return cls(
            Publishing(joint, *about, partial(publish_version, log, accounts)),
            Replacing(policy, *about, partial(publish_replacement, ledger, accounts)),
        )

    @property
    def files(self) -> SealedFiles:
        return self.growing.files

    def last(self, name: str) -> Version | None:
        """The last version of a table."""
        if self.replacing.policy.tables[name].grows:
            return self.growing.last(name)
        known = self.growing.known(name, ReplacementRecord)
        return version_of(known[-1]) if known else None

    def last_slice(self, name: str) -> Slice:
        """What was counted for the last version of a table. Raises SourceError."""
        table = self.replacing.policy.tables[name]
        if table.grows:
            return self.growing.slices(name, table)[-1]
        return read_slice_of(self.files, self.growing.known(name, ReplacementRecord)[-1], table)

    def publish(
        self,
        source: Passed,
        through: dt.date | None,
        now: dt.datetime,
        *,
        only: Collection[str],
        recount: bool = False,
        after: Mapping[str, int] = MappingProxyType({}),
    ) -> dict[str, Version]:
        """Publish a version of these tables; by table the one that is the last now. ``through`` and
        ``recount`` are for those that grow; a table whose rows are replaced is left as it is where
        another process has published a version ``after`` that of the given number. Raises what both
        ways of publishing raise, and InvalidParameterValue for a day after the range of days."""
        tables = self.replacing.policy.tables
        grown = [name for name in only if tables[name].grows]
        for name in grown:
            end = tables[name].day_range[1]
            if through is not None and through > end:
                raise InvalidParameterValue(
                    f"{through} is after the range of days of table {name}, which ends on {end}",
                    hint=f"{how_to_extend(tables[name])} --table publishes some tables alone.",
                )
        found = self.growing.publish(source, through, now, only=grown, recount=recount)
        for name in (name for name in only if not tables[name].grows and not recount):
            found[name] = version_of(self.replacing.publish(name, source, after.get(name)))
        return found


def how_to_extend(table: Table) -> str:
    """How a table that grows gets days after its range."""
    return (
        f"To extend it, write a later end of tables.{table.name}.attributes.{table.days.name}.range"
        " in the policy, and carry the ledger over: tallyveil migrate POLICY."
    )
