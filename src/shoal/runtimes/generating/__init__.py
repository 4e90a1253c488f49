"""What runtimes that generate texts do alike, whichever library computes logits: torch is none of it."""
