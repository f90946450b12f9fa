"""Joint noise for counts that have to add up: its laws under constraints, and drawing from them.

Nothing but `release` meets confidential data, against a receipt: what is drawn is noise.
`conditioned` restricts the law of independent noise to where the constraint holds.
"""
