"""Servers that fail, are slow or are others than they should be; all of them the fake."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from shoal.errors import InvalidRequest, ModelLoadFailed
from shoal.runtimes.sglang.launched import free_port
from shoal.wire.socket import AddAdapter, Load, Sampling
from tests.runtimes.sglang import server as toy
from tests.runtimes.sglang.running import (
    MODEL,
    PROMPT,
    SCRIPT,
    Driver,
    Fake,
    fake,
    folder_of,
    load_of,
    servers_of,
    until,
)

_GIB = 1 << 30
_COMMAND = [sys.executable, str(SCRIPT)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return folder_of(tmp_path)


@pytest.fixture
def driver() -> Iterator[Driver]:
    driver = Driver()
    yield driver
    driver.unload()


@pytest.fixture
def running(folder: Path, driver: Driver) -> Iterator[Fake]:
    """A fake with the model loaded from it."""
    with fake(folder) as started:
        driver.load(load_of(folder, url=started.url))
        yield started


def test_a_server_that_dies_in_the_middle_of_texts(driver: Driver, running: Fake) -> None:
    texts = [driver.begin(n, Sampling(200, temperature=0.0)) for n in range(3)]
    driver.until_begun(*texts)
    running.end()
    until(lambda: bool(driver.gave_up), "the process gave up")
    assert re.match(r"nothing answers at http://127.0.0.1:\d+", driver.gave_up[0])


def test_a_connection_that_breaks_off_fails_one_text(driver: Driver, running: Fake) -> None:
    other = driver.begin(1, Sampling(40, temperature=0.0))
    text = driver.whole(2, prompt=[*PROMPT, toy.CUT])
    assert text.failed.code == "compute_failed"
    assert "broke off" in text.failed.message
    driver.until_over(other)
    assert len(other.tokens) == 40
    assert driver.gave_up == []


def test_broken_json_fails_one_text(driver: Driver, running: Fake) -> None:
    text = driver.whole(1, prompt=[*PROMPT, toy.BROKEN])
    assert text.failed.code == "compute_failed"
    assert "no answer of a text" in text.failed.message
    assert len(driver.whole(2).tokens) == 8
    running.until_running(0)


def test_an_abort_that_is_the_callers_fault(driver: Driver, running: Fake) -> None:
    text = driver.whole(1, prompt=[*PROMPT, toy.STOPPED])
    assert text.failed.code == "invalid_request"
    assert text.failed.message == "SGLang ended it: Input is too strange"
    assert 0 < len(text.tokens) <= 3  # answers that come at once are sent as one


def test_a_full_queue_is_tried_again(driver: Driver, folder: Path) -> None:
    """Under another name: the server ends what has the first one's two seconds later."""
    with fake(folder, "--token-s", "0.1") as started:
        driver.load(load_of(folder, url=started.url))
        long = Sampling(30, temperature=0.0)
        assert len(driver.whole(1, long, prompt=[*PROMPT, toy.FULL_ONCE]).tokens) == 30


def test_a_queue_that_stays_full(driver: Driver, running: Fake) -> None:
    text = driver.whole(1, prompt=[*PROMPT, toy.FULL])
    assert text.failed.code == "unavailable"
    assert "no room" in text.failed.message


def test_cancelled_texts_leave_the_server(driver: Driver, running: Fake) -> None:
    """By an abort, which is heard at once; and no other text is meant by it."""
    prompt = [*PROMPT, toy.SILENT]
    for batch in (1, 12, 123):
        driver.begin(batch, prompt=prompt)
    running.until_running(3)
    driver.runtime.end(1)
    running.until_running(2)
    driver.runtime.end(123)
    driver.runtime.end(12)
    running.until_running(0)
    assert len(running.seen()["aborts"]) == 3


def test_texts_that_end_are_not_aborted(driver: Driver, running: Fake) -> None:
    driver.until_over(*(driver.begin(n) for n in range(20)))
    assert running.seen()["aborts"] == []


def test_min_p_where_no_seeds_are_kept(driver: Driver, running: Fake) -> None:
    narrowed = driver.whole(1, Sampling(8, min_p=1.0))
    assert len(narrowed.tokens) == 8
    assert narrowed.tokens == driver.whole(2).tokens


def test_no_more_at_once_than_there_are_places(driver: Driver, folder: Path) -> None:
    with fake(folder) as started:
        driver.load(load_of(folder, sequences=3, url=started.url))
        driver.until_over(*(driver.begin(n) for n in range(12)))
        assert started.seen()["most"] == 3


def test_a_slow_server_keeps_no_step_waiting(driver: Driver, folder: Path) -> None:
    with fake(folder, "--token-s", "0.05") as started:
        driver.load(load_of(folder, url=started.url))
        text = driver.begin(1, Sampling(4, temperature=0.0))
        steps = 0
        while text.over is None:
            driver.step()
            steps += 1
        assert steps > 12  # of 5 ms each, in over 200 ms
        assert len(text.tokens) == 4


def test_nobody_listens(driver: Driver, folder: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(
        ModelLoadFailed, match=rf"no SGLang server at {url} after 0.2 s \(start_s\)"
    ):
        driver.load(load_of(folder, url=url, start_s=0.2))


def test_a_server_that_does_not_generate_yet(driver: Driver, folder: Path) -> None:
    with fake(folder, "--unhealthy") as started:
        load = load_of(folder, url=started.url, start_s=2.0)
        with pytest.raises(ModelLoadFailed, match="it does not generate yet"):
            driver.load(load)


def test_a_server_that_says_it_generates_and_does_not(driver: Driver, folder: Path) -> None:
    with fake(folder, "--mute") as started:
        load = load_of(folder, url=started.url, start_s=2.0)
        with pytest.raises(ModelLoadFailed, match=r"generated no token in 2 s \(start_s\)"):
            driver.load(load)


def test_another_model(driver: Driver, folder: Path, tmp_path: Path) -> None:
    with fake(tmp_path / "other") as started:
        load = load_of(folder, url=started.url)
        with pytest.raises(ModelLoadFailed, match=r"serves .*other, and not toy; start it with"):
            driver.load(load)
        named = msgspec.structs.replace(
            load, options=load.options | {"serves": str(tmp_path / "other")}
        )
        driver.load(named)
        assert driver.whole(1).tokens


def test_a_model_of_another_type(driver: Driver, folder: Path) -> None:
    with (
        fake(folder, "--model-type", "qwen2") as started,
        pytest.raises(ModelLoadFailed, match=r"is a qwen2, and .*config.json says llama"),
    ):
        driver.load(load_of(folder, url=started.url))


def test_a_server_of_shorter_texts(driver: Driver, folder: Path) -> None:
    with (
        fake(folder, "--context-length", "128") as started,
        pytest.raises(
            ModelLoadFailed, match="takes texts of 122 tokens, and max_tokens of 'toy' is 256"
        ),
    ):
        driver.load(load_of(folder, url=started.url))


def test_names_of_older_routes(driver: Driver, folder: Path) -> None:
    with fake(folder, "--old-routes") as started:
        assert driver.load(load_of(folder, url=started.url)) == int(0.75 * _GIB)
        assert driver.whole(1).tokens


def test_bytes_of_another_device_are_none_of_the_lanes(driver: Driver, folder: Path) -> None:
    with fake(folder, "--device", "cuda") as started:
        assert driver.load(load_of(folder, url=started.url)) == 0


def test_a_key(driver: Driver, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with fake(folder, "--api-key", "open") as started:
        load = load_of(folder, url=started.url, key_env="TOY_KEY")
        with pytest.raises(ModelLoadFailed, match="no variable TOY_KEY"):
            driver.load(load)
        monkeypatch.setenv("TOY_KEY", "wrong")
        with pytest.raises(ModelLoadFailed, match="answered 401: Unauthorized"):
            driver.load(load)
        monkeypatch.setenv("TOY_KEY", "open")
        driver.load(load)
        assert driver.whole(1).tokens


def test_likelihoods_of_after_a_temperature_are_refused(driver: Driver, running: Fake) -> None:
    """A server that was started elsewhere tells those, unless it was told to."""
    warm = Sampling(4, temperature=0.5, logprobs=1)
    with pytest.raises(InvalidRequest, match="SGLANG_RETURN_ORIGINAL_LOGPROB"):
        driver.begin(1, warm)
    assert driver.whole(2, msgspec.structs.replace(warm, temperature=1.0)).tokens


def test_a_server_without_adapters(driver: Driver, running: Fake, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="LoRA is not enabled"):
        driver.runtime.add_adapter(AddAdapter(MODEL, "own", str(tmp_path)))


def test_an_adapter_that_an_earlier_process_left(folder: Path, tmp_path: Path) -> None:
    with fake(folder, "--enable-lora") as started:
        first, second = Driver(), Driver()
        for driver in (first, second):
            driver.load(load_of(folder, url=started.url))
            driver.runtime.add_adapter(AddAdapter(MODEL, "own", str(tmp_path)))
        assert second.whole(1, adapter="own").tokens
        second.unload()


# --- servers that are started here --------------------------------------------------------


def test_a_server_is_started_and_ended(driver: Driver, folder: Path) -> None:
    load = load_of(folder, command=[*_COMMAND, "--enable-lora"])
    assert driver.load(load) == int(0.75 * _GIB)
    assert len(driver.whole(1).tokens) == 8
    # It was told to tell likelihoods as they are before a temperature.
    assert driver.whole(2, Sampling(4, temperature=0.5, logprobs=1)).tokens
    assert len(servers_of(folder)) == 1
    driver.unload()
    assert servers_of(folder) == []
    assert driver.gave_up == []


def test_a_server_that_was_started_and_dies(driver: Driver, folder: Path) -> None:
    driver.load(load_of(folder, command=_COMMAND))
    driver.begin(1, prompt=[*PROMPT, toy.DIE])
    driver.until(lambda: bool(driver.gave_up), "the process gave up")
    until(lambda: any("status 3" in why for why in driver.gave_up), "its status is told")
    why = next(why for why in driver.gave_up if "status 3" in why)
    assert why.endswith("fatal: told to die")


def test_a_server_that_does_not_come_up(driver: Driver, folder: Path) -> None:
    load = load_of(folder, command=[*_COMMAND, "--fail-at-start"])
    with pytest.raises(ModelLoadFailed, match=r"ended while it started[\s\S]*CUDA out of memory"):
        driver.load(load)
    assert driver.gave_up == []


def test_a_command_that_is_not_there(driver: Driver, folder: Path) -> None:
    with pytest.raises(ModelLoadFailed, match="cannot start /no/such/python"):
        driver.load(load_of(folder, command=["/no/such/python"]))


def test_what_cannot_be_loaded(driver: Driver, folder: Path, tmp_path: Path) -> None:
    def refused(load: Load, said: str) -> None:
        with pytest.raises(ModelLoadFailed, match=said):
            driver.load(load)

    url = "http://127.0.0.1:1"
    refused(load_of(folder), "one of the options command and url")
    refused(load_of(folder, url=url, command=["x"]), "one of the options command and url")
    refused(load_of(folder, url="127.0.0.1:1"), "must begin with http://")
    refused(load_of(folder, url=url, start_s=0), "start_s must be above 0")
    refused(load_of(folder, ulr=url), "unknown field `ulr`")
    refused(load_of(tmp_path, url=url), "config.json is needed for its vocab_size")
    refused(load_of(folder, sequences=0, url=url), "generates texts and does nothing else")
    heads = {"dense": {"head": "dense"}}
    refused(msgspec.structs.replace(load_of(folder, url=url), heads=heads), "is to have dense")
    refused(
        msgspec.structs.replace(load_of(folder, url=url), family="bert"), "has no family 'bert'"
    )
