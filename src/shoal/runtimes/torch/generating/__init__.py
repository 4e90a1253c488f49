"""Sequences that one model generates: many at once, a pass at a time."""
