"""The decisions of gateway and worker as pure state machines: events in, instructions out."""
