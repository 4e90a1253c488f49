"""GGUF files by llama.cpp: text generation on a CPU, with the quantised weights as they are."""
