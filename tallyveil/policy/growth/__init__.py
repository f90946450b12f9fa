"""The declaration of data that changes: it grows by days, or is replaced."""
