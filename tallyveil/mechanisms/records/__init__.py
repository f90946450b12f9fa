"""Mechanisms that perturb one record, and `sanitiser`, which perturbs every record of a table."""
