"""Kernels of papers 000 and 004, on the library's own."""
