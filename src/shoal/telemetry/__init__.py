"""Logs, metrics and traces of every process."""
