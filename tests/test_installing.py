import subprocess
import sys

import pytest

from shoal.installing import install, install_package


def test_the_command_is_for_this_very_environment() -> None:
    command = install("onnx")
    assert command.startswith(f"{sys.executable} -m pip install ")
    asked = subprocess.run(
        command.replace("install", "show --quiet", 1).replace("[onnx]", ""),
        shell=True,
        check=False,
    )
    assert asked.returncode == 0


def test_an_environment_of_uv_has_no_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shoal.installing.find_spec", lambda name: None)
    assert install_package("rich") == f"uv pip install --python {sys.executable} rich"
    assert install("torch") == f"uv pip install --python {sys.executable} 'shoal[torch]'"
