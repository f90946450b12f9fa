"""Execution of statements by both protocols: prepared statements, portals, cursors, replies."""
