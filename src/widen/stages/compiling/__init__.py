"""What is compiled once: by one thread, kept on disk, and said to whoever waits for it."""
