"""Weights in formats of other libraries -> folders with config.json and model.safetensors."""
