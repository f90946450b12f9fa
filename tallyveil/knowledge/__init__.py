"""What is known of a table: its released answers and exact rows, and what they say of a row.

What lives here takes what the ledger holds and answers "what is known of this row, and how well".
It reads no data and spends nothing.
"""
