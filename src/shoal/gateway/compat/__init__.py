"""The shapes of other APIs, exact enough that their official clients work unchanged."""
