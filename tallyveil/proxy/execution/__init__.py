"""What a connection asks to be done: statements, by both protocols, and what is kept of them."""
