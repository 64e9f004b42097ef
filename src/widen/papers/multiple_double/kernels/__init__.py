"""Kernels of paper 001, on the library's own."""
