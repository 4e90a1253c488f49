"""First requests to a model that nobody has loaded."""
