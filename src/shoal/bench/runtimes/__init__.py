"""Runtimes beside each other: what they weigh, how soon and how fast they answer."""
