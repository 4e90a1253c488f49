"""The ONNX Runtime runtime."""
