"""The sidecar of one machine: pulls units, prepares items, runs batches, answers."""
