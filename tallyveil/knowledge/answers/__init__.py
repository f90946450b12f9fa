"""What is known about rows: answers and estimates, with a table of the laws of their errors."""
