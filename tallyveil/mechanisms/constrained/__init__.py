"""Joint noise for counts that have to add up: its laws under constraints, and drawing from them.

Nothing here meets confidential data: what is drawn is noise, and whoever adds it to true counts has
a receipt. `conditioned` restricts the law of independent noise to where the constraint holds.
"""
