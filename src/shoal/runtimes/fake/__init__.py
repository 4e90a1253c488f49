"""A runtime without a model, for tests and benchmarks; nothing that serves imports it."""
