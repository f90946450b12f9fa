"""Which rows to buy for a workload so that its rows follow with the least error: numerics alone.

Errors are at ε = 1 (variance 2b²) or ρ = 1 (variance σ²), where each cell may lose 1. The rows of a
design are integers or, for a lattice, weights of groupings; `gate/strategies` makes columns of
them. What they cost is computed exactly elsewhere: a design that is bad costs precision alone.
"""
