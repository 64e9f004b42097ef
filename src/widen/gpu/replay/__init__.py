"""Launches, and launches again: what rests on private interfaces of PyTorch, Triton and CUDA."""
