"""`tallyveil mechanism …`: lists, shows and compares mechanisms."""
