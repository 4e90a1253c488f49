"""By which command packages come into the environment that runs this: `pip` alone may mean another's.

For messages that are read where the process runs; callers of a gateway have other environments.
"""

from __future__ import annotations

import shlex
import sys
from importlib.util import find_spec


def install(extra: str) -> str:
    """Of one of ours, or several with commas. For a shell, whether that environment is activated or not."""
    return install_package(f"shoal[{extra}]")


def install_package(name: str) -> str:
    """Of a package that no extra has."""
    python, package = shlex.quote(sys.executable), shlex.quote(name)
    if find_spec("pip") is None:  # as uv makes them
        return f"uv pip install --python {python} {package}"
    return f"{python} -m pip install {package}"
