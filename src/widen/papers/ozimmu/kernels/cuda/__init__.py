"""CUDA C++ kernels of paper 002."""
