"""Benchmarks: ``make bench NAME=latency`` prints one JSON object per measured line."""
