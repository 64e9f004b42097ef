"""What others call an array: numbers, lists, integers, DLPack, CuPy and JAX, as arrays of ours."""
