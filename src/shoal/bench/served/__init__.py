"""Texts through `shoal serve` and through a library's own server: what does the wrapping cost?"""
