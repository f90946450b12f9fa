"""The public domain: domain relations, what is asked of them, and the workload that comes out."""
