"""`tallyveil init`: a draft of a policy, from a source's schema or another program's metadata."""
