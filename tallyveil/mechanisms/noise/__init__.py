"""Noise that is added to answers: discrete Laplace and Gaussian, and their scales."""
