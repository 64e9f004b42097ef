"""Device code for GPUs, no policy."""
