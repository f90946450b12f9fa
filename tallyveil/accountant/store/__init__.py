"""Where charges and answers are kept: what the accountant needs of a store, and SQLite's file."""
