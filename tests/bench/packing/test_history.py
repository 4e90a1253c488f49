from __future__ import annotations

from shoal.bench.packing.history import History, read

LOG = """\
shoal serves at http://127.0.0.1:1
{"time":1.0,"level":"info","logger":"x","event":"loaded","lane":"cpu","model":"a","mb":3}
{"time":2.0,"level":"info","logger":"x","event":"loaded","lane":"cpu","model":"a","mb":3}
{"time":3.0,"level":"info","logger":"x","event":"evicting","lane":"cpu","model":"a","why":"room"}
{"time":3.5,"event":"load_failed","model":"b","error":"'b' needs 5 bytes: out of memory"}
{"time":4.0,"event":"loaded","lane":"cpu","model":"b"}
{"time":5.0,"event":"evicting","lane":"cpu","model":"a"}
{"event":"no time"}
[1]
"""


def test_copies_over_time() -> None:
    history = History(read(LOG))
    assert [history.copies("a", at) for at in (0.5, 1.0, 2.5, 3.0, 4.9, 5.0)] == [0, 1, 2, 1, 1, 0]
    assert history.copies("never", 3.0) == 0
    assert history.resident(4.5) == (2, 2)
    assert history.resident(2.5) == (1, 2)


def test_counts() -> None:
    history = History(read(LOG))
    assert history.count("loaded") == 3
    assert history.count("loaded", "a") == 2
    assert history.count("evicting", "a", since=4.0) == 1
    assert history.out_of_memory() == 1
