"""What every runtime must do, whoever wrote it: the checks behind ``shoal runtime check``."""
