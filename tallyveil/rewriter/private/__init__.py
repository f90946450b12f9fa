"""The private block: the SELECT that aggregates records, split into outputs and keys."""
