"""Noises drawn under the condition that they add up as the counts of a hierarchy do."""
