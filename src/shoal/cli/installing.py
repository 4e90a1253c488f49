"""By which command an extra comes into the environment that runs this: `pip` alone may mean another's."""

from __future__ import annotations

import shlex
import sys
from importlib.util import find_spec


def install(extra: str) -> str:
    """For a shell, whether that environment is activated or not."""
    python = shlex.quote(sys.executable)
    if find_spec("pip") is None:  # as uv makes them
        return f"uv pip install --python {python} 'shoal[{extra}]'"
    return f"{python} -m pip install 'shoal[{extra}]'"
