"""Where it runs: backends with the same four verbs."""
