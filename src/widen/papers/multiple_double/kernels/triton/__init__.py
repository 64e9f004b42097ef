"""Triton kernels of paper 001."""
