"""Triton kernels of paper 002."""
