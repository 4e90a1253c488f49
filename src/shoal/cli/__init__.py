"""The `shoal` command; the only layer that reads the environment and starts processes."""
