"""Joint noise for counts that have to add up: its laws under constraints, and drawing from them.

Only `joint_release` handles confidential data, against a receipt; all other modules handle noise
alone. `conditioned` restricts the law of independent noise to where the constraint holds.
"""
