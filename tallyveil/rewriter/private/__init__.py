"""The private block: the SELECT that aggregates records, taken apart into outputs and keys."""
