"""Recorded columns of answers: which bear on a question, and the cells that they tell apart."""
