"""`tallyveil serve`: its processes, its log, who may connect, and its users."""
