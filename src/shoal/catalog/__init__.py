"""The catalog: cards as data, where their files come from, and which card a name means."""
