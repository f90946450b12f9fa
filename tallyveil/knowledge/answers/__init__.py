"""What is known of a row by itself: released answers, estimates, exact counts; how precisely."""
