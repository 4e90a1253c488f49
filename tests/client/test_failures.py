from __future__ import annotations

import subprocess
import sys


def test_errors_without_a_code_of_their_own_stand_for_no_code() -> None:
    """Whatever a process has imported before the client."""
    script = (
        "from shoal.runtimes.sglang.client import Gone\n"
        "from shoal.client.failures import ErrorBody, of_item\n"
        "print(type(of_item(ErrorBody(Gone.code, 'no'))).__name__)"
    )
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=True, text=True
    )
    assert said.stdout == "ComputeFailed\n"
