"""Kernels in Triton: portable GPU code, which Triton's interpreter also runs on a CPU."""
