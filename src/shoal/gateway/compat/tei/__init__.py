"""text-embeddings-inference's own routes, and what Hugging Face's inference client sends to a URL.

https://huggingface.github.io/text-embeddings-inference/
https://huggingface.co/docs/inference-providers/tasks/index
"""
