"""Triton kernels of paper 003."""
