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
from tallyveil.cube.cube_loading import Undeclared, as_read, load_cubes, rows_left_out, undeclared
from tallyveil.cube.declared_values import with_values
from tallyveil.cube.public_tables import check_public, load_public
from tallyveil.cube.sealed_cubes import SealedCubes
from tallyveil.cube.source_relations import relations_read
from tallyveil.cube.sources import Given, Passed, check_files, connected
from tallyveil.cube.type_losses import type_losses

__all__ = [
    "Cube",
    "Given",
    "Passed",
    "SealedCubes",
    "Undeclared",
    "as_read",
    "check_files",
    "check_public",
    "connected",
    "load_cubes",
    "load_public",
    "relations_read",
    "rows_left_out",
    "type_losses",
    "undeclared",
    "with_values",
]
