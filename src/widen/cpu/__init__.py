"""On a CPU: NumPy arrays, Numba kernels around BLAS products, the definition's bits."""
