"""Processes that hold weights and compute, and the worker's link to them."""
