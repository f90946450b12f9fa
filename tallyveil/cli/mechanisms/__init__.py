"""`tallyveil mechanism …`: mechanisms listed, shown and compared."""
