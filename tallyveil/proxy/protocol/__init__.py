"""Messages of PostgreSQL's protocol: decoded from bytes and encoded to bytes."""
