"""On a GPU: PyTorch tensors, Triton and CUDA kernels around tensor cores, the definition's bits."""
