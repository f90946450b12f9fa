"""What each name means: relations, views, common tables, columns, and where records come from."""
