"""The gate: the one room that knows policy, rewriter, cube, mechanisms and accountant together.

What lives here decides how a statement is answered (exactly, from history, or by a purchase),
carries it out, and reports what it cost. Sockets, files and dialects of the wire stay outside;
`interface` is what the faces of the gate rely on.
"""

from tallyveil.cube import Given
from tallyveil.gate.gate import STATEMENT_TIMEOUT, Gate
from tallyveil.gate.interface import ColumnType, Notice, Parameters, Result
from tallyveil.gate.posterior import RowPosterior
from tallyveil.gate.session import GateSession

__all__ = [
    "STATEMENT_TIMEOUT",
    "ColumnType",
    "Gate",
    "GateSession",
    "Given",
    "Notice",
    "Parameters",
    "Result",
    "RowPosterior",
]
