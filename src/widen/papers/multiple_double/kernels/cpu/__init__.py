"""Numba kernels of paper 001."""
