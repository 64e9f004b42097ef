"""Numba kernels of paper 003."""
