"""Fused CPU kernels: parallel, cached on disk, no fast-math."""
