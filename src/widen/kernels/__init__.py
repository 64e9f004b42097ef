"""Device code, no policy."""
