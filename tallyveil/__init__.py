"""tallyveil: SQL counts about a confidential table, under differential privacy."""
