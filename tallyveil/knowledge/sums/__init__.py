"""The rows of one statement together: which of their sums are exact, and values that add up."""
