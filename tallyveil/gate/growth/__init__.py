"""Tables that grow by days: their versions, and what plans buy of them."""
