"""What each kind of runtime needs beside Shoal itself, and whether that is installed here.

Asked before a runtime is started: a process that cannot start tells the same, three times and later.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
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
    module = lacking(kind)
    return None if module is None else told(kind, module)


def lacking(kind: str) -> str | None:
    """The first module that is not there; None: all are."""
    return next((module for module in NEEDED.get(kind, ()) if find_spec(module) is None), None)


def told(kind: str, module: str) -> str:
    """That a runtime's module is not there, in words that may travel to callers: no path stands in them."""
    return (
        f"the {kind} runtime needs the package '{module}': pip install 'shoal[{kind}]' in the "
        "environment of its worker (`shoal doctor` writes the command out)"
    )


def versions(kind: str) -> str:
    """The packages of a kind, each with the version that is installed here."""
    return ", ".join(_version(module) for module in NEEDED.get(kind, ()))


def _version(module: str) -> str:
    try:
        return f"{module} {version(module)}"
    except PackageNotFoundError:
        return f"{module} ({'no version told' if find_spec(module) else 'not installed'})"
