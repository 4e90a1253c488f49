"""Shoal serves a large fleet of small models."""

__version__ = "0.1.0"
