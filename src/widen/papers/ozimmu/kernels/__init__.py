"""Kernels of paper 002, on the library's own."""
