"""Mechanisms for one count with a public range 0..n (COUNT), as exact matrices.

A `CountMatrix` is a law in integers, so the law that is drawn from is the law that was proved
private. `designing` finds the best matrix with given properties for any of the paper's objectives;
`explicit` and `exponential` build matrices with a formula, and `named` lists those that COUNT
names. `credible` computes what an output reveals about the truth.

This room holds numbers and exact sampling only. Callers of `draw` open and charge the answer.
"""
