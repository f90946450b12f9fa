"""How a request is answered: free from what is known, or by a purchase, and by which."""
