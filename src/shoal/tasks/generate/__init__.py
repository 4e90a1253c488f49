"""`generate`: conversations read, bytes made text as they come, where it ends, and what of it is a call."""
