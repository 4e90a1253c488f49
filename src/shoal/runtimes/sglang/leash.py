"""``python -m shoal.runtimes.sglang.leash PARENT COMMAND...``: a command that does not outlive its parent.

What the kernel was asked for here still holds once this process has become the command.
"""

from __future__ import annotations

import os
import sys

from shoal.runtimes.process import die_with_parent


def main() -> None:
    """Become the command."""
    parent, *command = sys.argv[1:]
    die_with_parent()
    if os.getppid() != int(parent):  # it died before the kernel knew
        sys.exit(1)
    try:
        os.execvp(command[0], command)  # noqa: S606
    except OSError as error:
        print(f"cannot start {command[0]}: {error.strerror}", file=sys.stderr, flush=True)
        sys.exit(127)


if __name__ == "__main__":
    main()
