"""Noises that were drawn given that they add up as the counts of a hierarchy do."""
