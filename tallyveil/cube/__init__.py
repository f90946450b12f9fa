"""The confidential room: it loads the source, counts its cells, and answers workloads, sealed.

Only counts of whole cells live here, and no face of this room shows one: a `Cube` hands out a
`TrueAnswer`, which opens against a receipt. The number of all records is shown where the policy
makes it public, and nowhere else; a digest under a secret key is for the ledger alone. Loading is
total: no record, however malformed, makes it fail or say anything. What the policy declares public
is read here too, since it may lie in the same source, and handed out as it is. `reading` and
`coding` state the rule by which a record finds its cell.
"""

from tallyveil.cube.cube import Cube
from tallyveil.cube.load import as_read, load_cubes, relations_read
from tallyveil.cube.public import check_public, load_public
from tallyveil.cube.sources import Given, check_files, connected

__all__ = [
    "Cube",
    "Given",
    "as_read",
    "check_files",
    "check_public",
    "connected",
    "load_cubes",
    "load_public",
    "relations_read",
]
