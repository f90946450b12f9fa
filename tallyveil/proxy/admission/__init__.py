"""Who may connect, how many may, and over which TLS."""
