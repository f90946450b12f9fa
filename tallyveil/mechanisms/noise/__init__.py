"""Noise that is added to answers: discrete Laplace, Gaussian and staircase, and their scales."""
