"""Encoders of texts as graphs: those that are exported here, and those that packages ship."""
