"""Machine code of Triton kernels: what it is made for, where it is found, how it is launched."""
