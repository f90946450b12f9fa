"""What was counted, kept in sealed files."""
