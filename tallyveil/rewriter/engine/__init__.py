"""The public DuckDB: sessions on it, bounds of its work, and its errors in our words."""
