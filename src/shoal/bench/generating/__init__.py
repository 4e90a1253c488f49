"""Texts that a runtime generates: how fast, how soon, and how evenly."""
