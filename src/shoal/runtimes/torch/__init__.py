"""The PyTorch runtime. Nothing outside this folder imports torch."""
