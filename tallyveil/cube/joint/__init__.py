"""Joint codes of several declarations of one table."""
