"""Every head through the API against the library that it was made for."""
