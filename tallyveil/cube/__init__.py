"""The confidential room: it loads the source, counts its cells, and answers workloads, sealed.

It holds only counts of whole cells, and its interface shows none of them: a `Cube` returns a
`TrueAnswer`, which opens only with a receipt. The number of all records is shown only where the
policy makes it public; a digest under a secret key is only for the ledger. Loading is total: no
record, however malformed, makes it fail or changes a message. Tables that the policy declares
public are read here too, since they may be in the same source, and returned unchanged. `reading`
and `coding` define the rule that assigns a record to its cell, and `bounding` which rows of a
privacy unit are counted.
"""

from tallyveil.cube.cube import Cube
from tallyveil.cube.cube_loading import (
    Undeclared,
    as_read,
    cells_in_use,
    columns_of,
    load_cubes,
    rows_left_out,
    typed,
    undeclared,
)
from tallyveil.cube.declared_values import with_values
from tallyveil.cube.kept.sealed_cubes import Kept, SealedCubes
from tallyveil.cube.kept.sealed_files import FilesInMemory, SealedFiles
from tallyveil.cube.kept.settled_rows import Unsettled, unsettled_rows
from tallyveil.cube.kept.slices import (
    Days,
    Slice,
    count_rows,
    count_slice,
    cube_of,
    read_slice,
    write_slice,
)
from tallyveil.cube.public_tables import check_public, load_public
from tallyveil.cube.source_contents import Contents
from tallyveil.cube.source_relations import relations_read
from tallyveil.cube.source_schema import source_schema
from tallyveil.cube.source_tables import SourceColumn, SourceTable
from tallyveil.cube.sources import Given, Passed, check_files, connected, is_there, unreadable_lines
from tallyveil.cube.type_losses import type_losses

__all__ = [
    "Contents",
    "Cube",
    "Days",
    "FilesInMemory",
    "Given",
    "Kept",
    "Passed",
    "SealedCubes",
    "SealedFiles",
    "Slice",
    "SourceColumn",
    "SourceTable",
    "Undeclared",
    "Unsettled",
    "as_read",
    "cells_in_use",
    "check_files",
    "check_public",
    "columns_of",
    "connected",
    "count_rows",
    "count_slice",
    "cube_of",
    "is_there",
    "load_cubes",
    "load_public",
    "read_slice",
    "relations_read",
    "rows_left_out",
    "source_schema",
    "type_losses",
    "typed",
    "undeclared",
    "unreadable_lines",
    "unsettled_rows",
    "with_values",
    "write_slice",
]
