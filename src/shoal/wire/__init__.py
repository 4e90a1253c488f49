"""Messages between processes, and their bytes."""
