"""The queue: a NATS server with JetStream, and everything that is said to it."""
