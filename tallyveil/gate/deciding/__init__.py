"""Decides how a request is answered: free from history, or by a purchase, and by which one."""
