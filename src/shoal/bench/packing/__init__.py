"""Many models on lanes that hold a few of them: evictions, budgets, and memory that comes back."""
