"""Graphs made of safetensors, with numpy alone: no torch, and no `onnx` package."""
