"""The best linear unbiased estimates of queries from the noisy answers to others."""
