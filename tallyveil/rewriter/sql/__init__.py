"""SQL statements as text and as syntax trees: the supported SQL, and the types of expressions."""
