"""What the runtime asks of SGLang's HTTP API and makes of its answers: the fake's, and a real server's
where ``SHOAL_SGLANG_URL`` names one (and ``SHOAL_SGLANG_ADAPTER`` a folder with a LoRA of its model).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec
import numpy as np
import pytest

from shoal.errors import InvalidRequest, TooManyTokens, UnknownModel
from shoal.runtimes.base import Generates
from shoal.wire.arrays import from_wire
from shoal.wire.socket import AddAdapter, Load, RemoveAdapter, Run, Sampling
from tests.runtimes.sglang.running import (
    GREEDY,
    MODEL,
    PROMPT,
    REAL,
    REAL_ADAPTER,
    Driver,
    fake,
    folder_of,
    load_of,
)

_FAKES = {
    "fake": ("--enable-lora", "--enable-deterministic-inference"),
    "disjoint": (
        "--enable-lora",
        "--enable-deterministic-inference",
        "--incremental-streaming-output",
    ),
}


@pytest.fixture(scope="module", params=[*_FAKES, "real"])
def load(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Load]:
    folder = folder_of(tmp_path_factory.mktemp("sglang"))
    if request.param == "real":
        if REAL is None:
            pytest.skip("SHOAL_SGLANG_URL names no server")
        serves = httpx.get(f"{REAL}/get_model_info", trust_env=False).json()["model_path"]
        (folder / "config.json").write_bytes(b'{"vocab_size": 1000}')  # of which the tests take ids
        yield load_of(folder, url=REAL, serves=serves)
        return
    raw = {"SGLANG_RETURN_ORIGINAL_LOGPROB": "1"}
    with fake(folder, *_FAKES[request.param], environment=raw) as server:
        yield load_of(folder, url=server.url)


@pytest.fixture
def driver(load: Load) -> Iterator[Driver]:
    """One for each test: what a failure leaves under way is no other test's."""
    driver = Driver()
    driver.load(load)
    yield driver
    driver.unload()
    assert driver.gave_up == []


def test_what_it_says_of_itself(driver: Driver) -> None:
    said = driver.runtime.hello().capabilities
    assert (said.batching, said.lora, said.streams) == ("self", True, True)
    assert isinstance(driver.runtime, Generates)


def test_a_text_at_temperature_0(driver: Driver) -> None:
    one, two = (driver.whole(batch) for batch in (1, 2))
    assert len(one.tokens) == 8
    assert one.tokens == two.tokens
    assert (one.ended.finish, one.ended.new_tokens) == ("length", 8)
    assert one.ended.seconds > 0


def test_it_comes_in_pieces(driver: Driver) -> None:
    text = driver.whole(1, Sampling(40, temperature=0.0))
    assert len(text.tokens) == 40
    assert len(text.chunks) > 5


def test_an_id_ends_it_and_is_no_part_of_it(driver: Driver) -> None:
    plain = driver.whole(1).tokens
    stop = plain[4]
    before = plain.index(stop)
    text = driver.whole(2, msgspec.structs.replace(GREEDY, stop=[stop]))
    assert text.tokens == plain[:before]
    assert (text.ended.finish, text.ended.new_tokens) == ("stop", before + 1)


def test_an_id_that_ends_it_at_its_most_tokens(driver: Driver) -> None:
    plain = driver.whole(1).tokens
    text = driver.whole(2, Sampling(1, temperature=0.0, stop=[plain[0]]))
    assert (text.tokens, text.ended.finish, text.ended.new_tokens) == ([], "stop", 1)


def test_no_tokens(driver: Driver) -> None:
    text = driver.whole(1, Sampling(0))
    assert (text.tokens, text.ended.finish, text.ended.new_tokens) == ([], "length", 0)


def test_it_ends_where_the_model_does(driver: Driver) -> None:
    prompt = (PROMPT * 64)[:253]
    text = driver.whole(1, prompt=prompt)
    assert (len(text.tokens), text.ended.finish) == (3, "length")
    with pytest.raises(TooManyTokens, match="the prompt has 257 tokens; toy takes 256"):
        driver.begin(2, prompt=[5] * 257)


def test_many_at_once(driver: Driver) -> None:
    alone = [driver.whole(n, prompt=[5 + n, 6, 7]).tokens for n in range(20)]
    texts = [driver.begin(100 + n, prompt=[5 + n, 6, 7]) for n in range(20)]
    driver.until_over(*texts)
    assert [text.tokens for text in texts] == alone


def test_the_seed_decides(driver: Driver) -> None:
    """Where the server keeps seeds, as this one does."""
    texts = [driver.whole(n, Sampling(16, seed=seed)).tokens for n, seed in enumerate((1, 1, 2))]
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize("narrow", [{"top_k": 1}, {"top_p": 1e-6}])
def test_what_leaves_one_token_is_greedy(driver: Driver, narrow: dict[str, float]) -> None:
    text = driver.whole(1, Sampling(8, seed=5))
    narrowed = driver.whole(2, msgspec.structs.replace(Sampling(8, seed=5), **narrow))
    assert len(narrowed.tokens) == 8
    assert narrowed.tokens == driver.whole(3).tokens
    assert text.tokens != narrowed.tokens


def test_min_p_beside_seeds_is_refused(driver: Driver) -> None:
    """A server that keeps seeds, as this one does, would end."""
    with pytest.raises(InvalidRequest, match="takes no min_p"):
        driver.begin(1, Sampling(8, min_p=0.1))
    assert driver.whole(2, Sampling(8, temperature=0.0, min_p=0.1)).ended.finish == "length"


def test_bias(driver: Driver) -> None:
    text = driver.whole(1, msgspec.structs.replace(GREEDY, bias={9: 100.0}))
    assert text.tokens == [9] * 8


def test_penalties(driver: Driver) -> None:
    """Of two tokens that are far ahead of all others neither is taken for ever."""
    two = Sampling(40, temperature=0.0, bias={9: 100.0, 10: 100.0}, frequency=2.0)
    tokens = driver.whole(1, two).tokens
    assert set(tokens) == {9, 10}
    assert min(tokens.count(9), tokens.count(10)) > 10
    first = driver.whole(2, msgspec.structs.replace(two, frequency=-2.0)).tokens
    assert len(set(first[20:])) == 1


def test_likelihoods(driver: Driver) -> None:
    text = driver.whole(1, msgspec.structs.replace(GREEDY, logprobs=3))
    for chunk in text.chunks:
        count = len(from_wire(chunk.tokens))
        assert chunk.logprobs is not None
        assert chunk.top_ids is not None
        assert chunk.top_logprobs is not None
        assert from_wire(chunk.logprobs).shape == (count,)
        assert from_wire(chunk.top_ids).shape == from_wire(chunk.top_logprobs).shape == (count, 3)
        assert (from_wire(chunk.top_ids)[:, 0] == from_wire(chunk.tokens)).all()
        assert (np.diff(from_wire(chunk.top_logprobs)) <= 0).all()
        assert from_wire(chunk.logprobs).dtype == np.float32
    assert text.tokens == driver.whole(2).tokens


def test_likelihoods_of_the_tokens_alone(driver: Driver) -> None:
    text = driver.whole(1, msgspec.structs.replace(GREEDY, logprobs=0))
    assert text.chunks[0].top_ids is not None
    assert from_wire(text.chunks[0].top_ids).shape[1] == 0
    assert driver.whole(2).chunks[0].logprobs is None


def test_a_text_is_called_off_and_gives_its_place_back(driver: Driver, load: Load) -> None:
    texts = [driver.begin(n, Sampling(200, temperature=0.0)) for n in range(load.sequences)]
    waiting = driver.begin(50)
    driver.until_begun(*texts)
    assert not waiting.chunks
    for n, text in enumerate(texts):
        over = driver.runtime.end(n)
        assert (over.batch, over.finish) == (n, "cancelled")
        assert over.new_tokens >= len(text.tokens) > 0
    driver.until_over(waiting)
    assert waiting.ended.finish == "length"


def test_one_that_waits_is_called_off(driver: Driver, load: Load) -> None:
    texts = [driver.begin(n, Sampling(200, temperature=0.0)) for n in range(load.sequences)]
    driver.until_begun(*texts)
    driver.begin(50)
    over = driver.runtime.end(50)
    assert (over.finish, over.new_tokens) == ("cancelled", 0)
    for n in range(load.sequences):
        driver.runtime.end(n)
    driver.whole(51)


@pytest.mark.parametrize(
    ("prompt", "said"),
    [([], "no tokens"), ([5, 2**31 - 1], "token id 2147483647"), ([-1], "token id -1")],
)
def test_prompts_without_sense(driver: Driver, prompt: list[int], said: str) -> None:
    with pytest.raises(InvalidRequest, match=said):
        driver.begin(1, prompt=prompt)
    driver.whole(2)


def test_what_the_server_has_against_a_request_is_the_callers(driver: Driver) -> None:
    text = driver.whole(1, msgspec.structs.replace(GREEDY, bias={10**9: 1.0}))
    assert text.failed.code == "invalid_request"
    assert "logit_bias" in text.failed.message
    assert driver.whole(2).tokens


def test_an_adapter(driver: Driver, load: Load, tmp_path: Path) -> None:
    if load.options["url"] == REAL and REAL_ADAPTER is None:
        pytest.skip("SHOAL_SGLANG_ADAPTER names no folder")
    path = str(tmp_path if load.options["url"] != REAL else REAL_ADAPTER)
    plain = driver.whole(1).tokens
    driver.runtime.add_adapter(AddAdapter(MODEL, "own", path))
    own, other = driver.begin(2, adapter="own"), driver.begin(3)
    driver.until_over(own, other)
    assert own.tokens != plain
    assert other.tokens == plain
    driver.runtime.remove_adapter(RemoveAdapter(MODEL, "own"))
    with pytest.raises(InvalidRequest, match="has no adapter 'own'"):
        driver.begin(4, adapter="own")
    with pytest.raises(InvalidRequest, match="there is no adapter 'own'"):
        driver.runtime.remove_adapter(RemoveAdapter(MODEL, "own"))


def test_an_adapter_that_cannot_be_read(driver: Driver) -> None:
    with pytest.raises(InvalidRequest, match="adapter 'bad'"):
        driver.runtime.add_adapter(AddAdapter(MODEL, "bad", "/nowhere"))
    with pytest.raises(InvalidRequest, match="no adapter"):
        driver.begin(1, adapter="bad")


def test_batches_and_models_that_are_not_there(driver: Driver) -> None:
    with pytest.raises(InvalidRequest, match="generates texts; it has no batches"):
        driver.runtime.run(Run(1, MODEL, ["generate"]))
    with pytest.raises(UnknownModel):
        driver.begin(1, model="other")


def test_what_it_holds(driver: Driver) -> None:
    assert driver.runtime.stats().models.keys() == {MODEL}
