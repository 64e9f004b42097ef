"""Kernels in CUDA C++, compiled at run time: only where they beat Triton by 10 % or more."""
