"""Laws of noise, of sums of noises and of the errors of estimates."""
