"""Kernels of paper 003, on the library's own."""
