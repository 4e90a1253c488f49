"""The decisions of `core` on a virtual clock: worlds of thousands of workers, and rivals in them."""
