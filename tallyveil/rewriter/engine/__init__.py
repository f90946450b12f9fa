"""The public DuckDB: sessions on it, limits of its work, and the translation of its errors."""
