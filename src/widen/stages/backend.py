"""The backends, and what each of them can do: the same four verbs.

`quantise` finds row and column exponents, `encode` writes planes of small integers, `multiply`
gives exact groups, `reconstruct` puts integers together again and rounds them once. What they pass
on is a backend's own business; the bits of planes, groups and results are not: those of
`definition` are everybody's.
"""

BACKENDS = ("definition", "numpy", "torch")
VERBS = ("quantise", "encode", "multiply", "reconstruct")
