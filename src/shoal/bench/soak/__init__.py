"""Does memory stay flat? Long load on a whole deployment, and what its processes hold meanwhile."""
