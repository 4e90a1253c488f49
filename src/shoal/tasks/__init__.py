"""Per task: how an item is read and how a model's output becomes an answer. Pure."""
