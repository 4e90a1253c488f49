"""JSON of schemas: is every text that a grammar let through what its schema says?"""
