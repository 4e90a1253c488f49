"""One function a head: from packed hidden states to what a model says of each item."""
