import pytest

from shoal.cli.snapshot import Snapshot
from shoal.cli.status import _show


def test_what_is_missing_is_told_with_what_to_start(capsys: pytest.CaptureFixture[str]) -> None:
    _show(Snapshot("nats://here", gateways=[], workers=[], queues=[]))
    told = capsys.readouterr().out
    assert "Workers: none." in told and "start a `shoal worker`" in told
    assert "Gateways: none." in told and "start a `shoal gateway`" in told
