"""The release of a sanitised copy: charge, noise, file, in this order."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tallyveil.accountant import Accountant, Charge
from tallyveil.arrow import array_of
from tallyveil.cube import load_cubes
from tallyveil.errors import BudgetExceeded, OutputError
from tallyveil.files import flush
from tallyveil.mechanisms import Sanitiser
from tallyveil.policy import Policy
from tallyveil.sanitise.copy_plan import CopyPlan
from tallyveil.sanitise.description import KEY, describe

__all__ = ["sanitise"]


def sanitise(
    policy: Policy,
    plan: CopyPlan,
    out: Path,
    accountant: Accountant,
    analyst: str,
    source: duckdb.DuckDBPyConnection | None = None,
) -> int:
    """Charge for the copy, perturb every record, write ``out``, and return the number of records.

    The ledger records ``analyst``, who acts as custodian and needs no share of the budget.
    The charge is durable before a record is unsealed, and is never undone. The file appears under
    its name whole, or not at all.

    Raises BudgetExceeded, SourceError and LedgerError with nothing charged. Raises OutputError if
    the file exists or cannot be created (nothing charged), or cannot be written (charged, as the
    message says).
    """
    with _draft(out) as draft:
        table = plan.table
        declared = policy.model_copy(update={"tables": {table.name: table}})
        cubes = load_cubes(declared, source, key=accountant.rows_key)
        records = cubes[table.name].records(plan.workload)
        accountant.remember_data(table.name, cubes[table.name].digest)
        charge = Charge(plan.workload, Sanitiser.name, plan.scales, _words(plan))
        try:
            (receipt,) = accountant.charge([charge], analyst, custodian=True)
        except BudgetExceeded as error:
            error.hint = "Give a smaller epsilon; with fewer columns, each gets a larger share."
            raise
        try:
            laws = [part.law for part in plan.parts]
            codes = Sanitiser().release(records, receipt, plan.workload, laws)
            copied = _table(plan, codes)
            pq.write_table(copied.replace_schema_metadata({KEY: describe(plan)}), draft)
            draft.flush()
            os.fsync(draft.fileno())
            os.link(draft.name, out)
            flush(out.parent)
        except OSError as error:
            raise OutputError(
                f"the sanitised copy {out} could not be written: {_reason(error)}",
                detail=f"Charge {receipt.charge_id} was made before, and the charge stays.",
                hint="Free space on the disk, and try again if the budget allows it.",
            ) from None
    return int(copied.num_rows)


def _words(plan: CopyPlan) -> str:
    """Return the text that history shows for the charge."""
    parts = ", ".join(
        f"{part.name} by {part.law.name} at epsilon {float(part.law.epsilon):g}"
        for part in plan.parts
    )
    return f"sanitised copy of {plan.table.name}: {parts}"


def _table(plan: CopyPlan, codes: Sequence[np.ndarray[tuple[int], np.dtype[np.int64]]]) -> pa.Table:
    columns = {}
    for part, own in zip(plan.parts, codes, strict=True):
        for attribute, code in zip(part.attributes, np.unravel_index(own, part.shape), strict=True):
            columns[attribute.name] = array_of(attribute.cells, attribute.sql_type).take(
                pa.array(code)
            )
    return pa.table({n: columns[n] for n in plan.table.domain.names if n in columns})


@contextmanager
def _draft(out: Path) -> Iterator[BinaryIO]:
    """Open a temporary file next to ``out``, and remove it at the end. The caller links it to
    ``out``.

    A link, unlike renaming, cannot replace a file. Linking is tried out first, since a copy that
    cannot be put in place would still be charged.

    Raises OutputError if ``out`` exists or cannot be created.
    """
    if out.exists() or out.is_symlink():
        raise OutputError(
            f"the file {out} exists",
            hint="A copy is released once and never overwritten: name another file.",
        )
    path = out.parent / f".{out.name}.{secrets.token_hex(8)}"
    trial = path.with_name(f"{path.name}.link")
    try:
        draft = path.open("xb")
        try:
            os.link(path, trial)
            trial.unlink()
        except OSError:
            draft.close()
            path.unlink()
            raise
    except OSError as error:
        raise OutputError(
            f"{out} cannot be written: {_reason(error)}",
            hint="Choose an existing folder that you can write to, on a disk with hard links.",
        ) from None
    try:
        with draft:
            yield draft
    finally:
        path.unlink()


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else type(error).__name__
