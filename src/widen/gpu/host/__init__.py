"""Products on a GPU of operands in host memory, sent in panels."""
