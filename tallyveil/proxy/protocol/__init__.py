"""Messages of PostgreSQL's protocol, from bytes and to bytes."""
