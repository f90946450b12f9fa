"""Recorded columns of answers: which are relevant to a query, and the cells they distinguish."""
