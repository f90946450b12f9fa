"""The public relations of schema dp, and how relations are shown to a catalog."""
