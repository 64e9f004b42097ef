"""Triton kernels of papers 000 and 004."""
