"""Mechanisms for one count with a public range 0..n (COUNT), as exact matrices.

A `CountMatrix` is a law in integers: what is drawn is what was proved. `designing` finds the one
that fits the properties wanted, or minimises any of the paper's objectives; `explicit` and
`exponential` are known by name, and `named` lists those that COUNT names. `credible` says what an
output is worth.

Here live numbers and exact sampling. Whoever calls `draw` has opened an answer and paid for it.
"""
