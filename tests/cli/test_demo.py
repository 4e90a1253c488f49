from shoal.cli.demo import server_timing


def test_server_timing() -> None:
    header = 'queue;dur=0.11, prepare;desc="a, b";dur=2, wait, compute;dur=x, total;dur=3.5'
    found = server_timing(header)
    assert (found["queue"], found["total"]) == (0.11, 3.5)
    assert not {"wait", "compute"} & found.keys()
    assert server_timing("") == {}
