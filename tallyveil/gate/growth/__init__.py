"""Tables that change: the versions of those that grow by days or are replaced, and their plans."""
