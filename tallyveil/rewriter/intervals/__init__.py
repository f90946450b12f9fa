"""What is asked about answers: ends of intervals, deviations, claims, and where noise decides."""
