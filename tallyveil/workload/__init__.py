"""The linear query: what a statement asks of the cube, as integer matrices over few axes.

This room defines queries (columns, factors, rows and their names, and the cells that these
distinguish) and knows nothing about the data. All rooms may import it.
"""
