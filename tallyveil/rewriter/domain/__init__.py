"""The public domain: domain relations, queries on them, and the workload that results."""
