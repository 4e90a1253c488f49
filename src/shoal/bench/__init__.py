"""Benchmarks that anyone can run: `python -m shoal.bench`."""
