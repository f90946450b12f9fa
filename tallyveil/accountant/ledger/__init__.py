"""The ledger's file: its tables, its chain, and release events as bytes."""
