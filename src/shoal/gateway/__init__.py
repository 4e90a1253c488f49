"""The HTTP side: calls come in, units go onto the queue, answers are joined and rendered."""
