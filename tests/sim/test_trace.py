"""Traces in all their forms, and what is wrong with one said by line."""

from pathlib import Path

import pytest

from shoal.errors import ConfigError
from shoal.sim.trace import read_trace


def write(folder: Path, text: str) -> Path:
    path = folder / "trace"
    path.write_text(text)
    return path


def test_csv_in_any_order_from_any_zero(tmp_path: Path) -> None:
    path = write(tmp_path, "time,model,items,tokens\n12.5,b,2,7\n10.0,a,1,30\n13,b,1,4\n")
    trace = read_trace(path)
    assert trace.models == ["b", "a"]
    assert [(r.at, r.model, r.lengths) for r in trace.requests] == [
        (0.0, 1, [30]),
        (2.5, 0, [4, 3]),
        (3.0, 0, [4]),
    ]
    assert trace.seconds == 3.0
    assert trace.share("b") == pytest.approx(2 / 3)
    assert [r.at for r in trace.faster(2.0)] == [0.0, 1.25, 1.5]


def test_json_lines_and_what_they_may_leave_out(tmp_path: Path) -> None:
    path = write(tmp_path, '{"time": 1, "model": "a"}\n\n{"time": 2, "model": "a", "items": 2}\n')
    assert [r.lengths for r in read_trace(path, 50).requests] == [[50], [50, 50]]


def test_a_gateways_log_is_a_trace_of_when_requests_came(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        '{"time": 100.5, "event": "request", "model": "a", "status": 200, "items": 3, "ms": 500}\n'
        '{"time": 100.6, "event": "gateway_stopped"}\n'
        '{"time": 100.7, "event": "request", "model": null, "status": 404, "items": 0, "ms": 1}\n'
        '{"time": 101.2, "event": "request", "model": "a", "status": 200, "items": 1, "ms": 200}\n',
    )
    trace = read_trace(path)
    assert [len(r.lengths) for r in trace.requests] == [3, 1]
    assert [r.at for r in trace.requests] == pytest.approx([0.0, 1.0])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("time,model\n1,a\nsoon,a\n", "line 3"),
        ('{"time": 1, "model": "a"}\n{"time": 2}\n', "line 2"),
        ('{"time": 1, "model": "a"}\n{"time": 2, "model": "a", "items": 0}\n', "line 2"),
        ('{"time": 1, "model": "a"}\n', "at least two"),
        ("time,model\n1,a\nnan,a\n", "line 3: time is nan"),
        ("time,model\n1,a\ninf,a\n", "line 3: time is inf"),
        ("time,model\n0,a\n9999999,a\n", "in seconds"),  # as milliseconds would be
        ("time,model,items\n0,a,1\n1,a,1000001\n", "line 3.*1000001 items"),
        ("time,model,items,tokens\n0,a,1,1\n1,a,2,300000000\n", "line 3.*150000000 tokens"),
        ('{"event": "request", "status": 200, "items": 1}\n', "line 1.*time"),
        ('{"event": "request", "status": 200, "items": "x", "time": 1, "model": "a"}', "line 1"),
        ('{"event": "request", "status": 200, "items": 1, "time": "x", "model": "a"}', "line 1"),
        ("", "at least two"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_trace(write(tmp_path, text))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_trace(tmp_path / "none")
