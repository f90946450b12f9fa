"""What a policy declares, checked when a gate opens, and what it guarantees."""
