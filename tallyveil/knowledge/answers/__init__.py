"""What is known about one row: released answers, estimates and exact counts, and how precisely."""
