"""The linear query: what a statement asks of the cube, as integer matrices over few axes.

What lives here says what a query is (its columns, its factors, its rows and their names, the cells
that these tell apart), never what the data are. All rooms may import it.
"""

from tallyveil.workload.workload import Column, Summed, Workload

__all__ = ["Column", "Summed", "Workload"]
