from __future__ import annotations

import subprocess
import sys

import pytest

import shoal

CODE = "import shoal, sys; print(sorted({'httpx', 'numpy', 'msgspec'} & set(sys.modules)))"


def test_the_server_starts_without_the_client() -> None:
    run = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_the_package_has_the_clients_and_nothing_unknown() -> None:
    from shoal.client import AsyncClient, Client

    assert (shoal.Client, shoal.AsyncClient) == (Client, AsyncClient)
    with pytest.raises(AttributeError, match="no attribute 'Cleint'"):
        _ = shoal.Cleint
