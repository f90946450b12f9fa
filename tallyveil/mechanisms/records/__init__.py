"""Mechanisms that perturb one record, and `sanitiser`, which makes a copy of a table of them."""
