"""The statement as text and as a tree: what is understood of SQL, and of which types it is."""
