"""What a policy declares, looked at when a gate opens, and what is guaranteed by it."""
