"""What each kind of runtime needs beside Shoal itself, and whether that is installed here.

Asked before a runtime is started: a process that cannot start tells the same, three times and later.
"""

from __future__ import annotations

from importlib.util import find_spec

#: Kind -> modules, which have their packages' names. Each kind is an extra by its own name.
NEEDED = {
    "torch": ("torch", "safetensors"),
    "candle": ("candding",),
    "onnx": ("onnxruntime",),
    "gguf": ("xllamacpp",),
}


def missing(kind: str) -> str | None:
    """What is not installed, and how to install it; None where all is."""
    for module in NEEDED.get(kind, ()):
        if find_spec(module) is None:
            return told(kind, module)
    return None


def told(kind: str, module: str) -> str:
    """That a runtime's module is not there, in words."""
    return f"the {kind} runtime needs the package '{module}': pip install 'shoal[{kind}]'"
