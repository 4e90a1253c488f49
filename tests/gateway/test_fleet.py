from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.catalog.card import CostSeed, Profile
from shoal.catalog.tasks import GenerateTask, Tasks
from shoal.core.admission import Admission
from shoal.core.admission_events import Arrived, UnitSize
from shoal.core.pulsing import silent_s
from shoal.errors import ProtocolError
from shoal.gateway.fleet import Fleet
from shoal.wire.codec import encode
from shoal.wire.queue import ModelPulse, WorkerPulse, decode_queue
from tests.gateway.conftest import MODEL, card

RESIDENT = ModelPulse("resident", 1, 2e-6, 1e-3)
LOADING = ModelPulse("loading", 0, 0.0, 0.0)
FAILED = ModelPulse("failed", 0, 0.0, 0.0, reason="broken")


def pulse(
    worker: str, said: ModelPulse | None, pool: str = "default", draining: bool = False
) -> WorkerPulse:
    models = {} if said is None else {MODEL: said}
    return WorkerPulse(worker, pool, "host", ["cpu"], models, 0, draining, ready=True)


def fleet(*pulses: WorkerPulse) -> Fleet:
    made = Fleet("default")
    for said in pulses:
        made.heard(said, 0.0)
    return made


def test_before_any_pulse_the_card_guesses() -> None:
    rate = fleet().rate(card())
    assert rate.lanes == 0
    assert 0 < rate.seconds_per_byte < 1e-4


def test_before_any_pulse_no_text_costs_more_than_what_the_model_reads_of_it() -> None:
    seed, rate = card().profile("default").cost, fleet().rate(card())
    longest_s = seed.item_s + 256 * seed.token_s
    assert rate.seconds(5_000_000, 1) == pytest.approx(longest_s)
    assert rate.seconds(5_000_000, 3) == pytest.approx(3 * longest_s)


def test_lanes_add_up_and_rates_are_weighted_by_them() -> None:
    fast = ModelPulse("resident", 3, 0.0, 1.0)
    slow = ModelPulse("resident", 1, 0.0, 5.0)
    rate = fleet(pulse("a", fast), pulse("b", slow)).rate(card())
    assert (rate.lanes, rate.seconds_per_item) == (4, 2.0)


WRITES = ModelPulse(
    "resident", 1, 1e-3, 2.25, longest_item_s=3.25, seconds_per_new_token=0.5, new_tokens=4.0
)
SLOW = ModelPulse("resident", 3, 1e-3, 13.0, seconds_per_new_token=1.5, new_tokens=8.0)


def test_a_text_costs_no_more_than_it_may_become_nor_than_is_expected() -> None:
    rate = fleet(pulse("a", WRITES)).rate(card())
    told = [rate.seconds(1000, 1, most) for most in (1, 3, 4, 400, 0)]
    assert told == [1.25 + 0.5, 1.25 + 1.5, 3.25, 3.25, 3.25]
    assert rate.seconds(9000, 1, 1) == 1.25 + 0.5  # a text is cut at the model's longest
    assert rate.seconds(2000, 2, 2) == 2 * rate.seconds(1000, 1, 1)


def test_of_workers_that_write_it_is_the_mean() -> None:
    rate = fleet(pulse("a", WRITES), pulse("b", SLOW)).rate(card())
    assert rate.seconds_per_new_token == 1.25
    assert rate.seconds(0, 1) == pytest.approx((2.25 + 3 * 13.0) / 4)


def test_of_one_that_does_not_tell_a_text_costs_what_an_item_does() -> None:
    older = ModelPulse("resident", 1, 1e-3, 2.25, longest_item_s=3.25)
    rate = fleet(pulse("a", older)).rate(card())
    assert rate.seconds(1000, 1, 1) == rate.seconds(1000, 1, 400) == 3.25
    both = fleet(pulse("a", older), pulse("b", SLOW)).rate(card())
    assert both.seconds(0, 1) == pytest.approx((2.25 + 3 * 13.0) / 4)


def test_before_any_pulse_texts_cost_what_the_card_guesses() -> None:
    seed = CostSeed(token_s=1e-4, item_s=0.0, new_token_s=0.01)
    writes = msgspec.structs.replace(
        card(),
        tasks=Tasks(generate=GenerateTask()),
        profiles={"default": Profile("fake", cost=seed, sequences=8)},
    )
    rate = fleet().rate(writes)
    assert rate.seconds(0, 1, 8) == pytest.approx(0.08)
    assert rate.batch_s == pytest.approx(8 * rate.seconds(0, 1))
    free = msgspec.structs.replace(seed, new_token_s=0.0)
    profiles = {"default": Profile("fake", cost=free)}
    assert fleet().rate(msgspec.structs.replace(writes, profiles=profiles)).seconds(0, 1, 1) > 0


def test_a_failure_counts_only_where_nobody_has_or_loads_the_model() -> None:
    assert fleet(pulse("a", FAILED)).rate(card()).failed == "broken"
    assert fleet(pulse("a", FAILED), pulse("b", RESIDENT)).rate(card()).failed is None
    assert fleet(pulse("a", FAILED), pulse("b", LOADING)).rate(card()).failed is None
    assert fleet(pulse("a", FAILED), pulse("b", FAILED)).rate(card()).failed == "broken"


def test_the_first_worker_that_may_try_again_tells_when_that_is() -> None:
    made = Fleet("default")
    made.heard(pulse("a", msgspec.structs.replace(FAILED, again_s=60.0)), 100.0)
    made.heard(pulse("b", msgspec.structs.replace(FAILED, again_s=5.0)), 110.0)
    assert made.rate(card()).again_at == 115.0
    assert fleet().rate(card()).again_at == 0.0


def test_a_worker_that_has_not_tried_may_still_load_it() -> None:
    assert fleet(pulse("a", FAILED), pulse("b", None)).rate(card()).failed is None


def test_a_batch_is_what_the_workers_say_and_until_then_what_the_card_says() -> None:
    assert fleet(pulse("a", RESIDENT)).rate(card()).batch_s == 0.1
    quick = msgspec.structs.replace(RESIDENT, batch_s=0.02)
    assert fleet(pulse("a", quick), pulse("b", RESIDENT)).rate(card()).batch_s == 0.02


def test_what_a_model_held_is_known_once_it_went() -> None:
    held = msgspec.structs.replace(RESIDENT, bytes=100)
    made = fleet(pulse("a", held), pulse("b", msgspec.structs.replace(held, bytes=90)))
    assert made.copies(MODEL) == (2, 100)
    for worker in "ab":
        made.heard(pulse(worker, None), 1.0)
    assert made.copies(MODEL) == (0, 90)


def test_the_runtime_of_a_model_is_known_once_it_went() -> None:
    made = fleet(
        pulse("a", msgspec.structs.replace(RESIDENT, runtime="onnx")), pulse("b", RESIDENT)
    )
    made.heard(pulse("a", None), 1.0)
    assert made.runtime(MODEL) == "onnx"
    assert made.runtime("other") is None


def test_silent_workers_are_forgotten() -> None:
    made = fleet(pulse("a", RESIDENT))
    assert not made.forget_silent(silent_s(1))
    assert made.workers == 1
    assert made.forget_silent(silent_s(1) + 1)
    assert not made.ready
    assert made.rate(card()).lanes == 0


def test_a_draining_worker_takes_no_more_and_other_pools_do_not_count() -> None:
    made = fleet(pulse("a", RESIDENT, draining=True), pulse("b", RESIDENT, pool="other"))
    assert not made.ready
    assert made.workers == 1
    assert made.rate(card()).lanes == 0


def test_the_best_state_of_a_model_is_told() -> None:
    assert fleet(pulse("a", FAILED), pulse("b", LOADING)).states() == {MODEL: "loading"}
    assert fleet(pulse("a", RESIDENT), pulse("b", FAILED)).states() == {MODEL: "resident"}


FIGURE = st.one_of(st.floats(), st.floats(0.0, 1.0), st.sampled_from([math.nan, math.inf, -1.0]))
SAID = st.builds(
    ModelPulse,
    state=st.sampled_from(["resident", "loading", "failed", "unheard of"]),
    lanes=st.integers(-2, 100),
    seconds_per_byte=FIGURE,
    seconds_per_item=FIGURE,
    shelf_s=FIGURE,
    longest_item_s=st.none() | FIGURE,
    batch_s=FIGURE,
    seconds_per_new_token=FIGURE,
    new_tokens=FIGURE | st.floats(0.0, 1e9),
)


@given(st.lists(SAID, max_size=4))
def test_no_worker_can_spoil_what_a_model_is_thought_to_cost(said: list[ModelPulse]) -> None:
    """Whatever workers send: what is read of it gives figures that admission can add up."""
    made = Fleet("default")
    for number, model in enumerate(said):
        try:
            heard = decode_queue(encode(pulse(f"w{number}", model)))
        except ProtocolError:
            continue
        assert isinstance(heard, WorkerPulse)
        made.heard(heard, 0.0)
    rate = made.rate(card())
    assert rate.lanes >= 0
    assert 0 < rate.batch_s < math.inf
    assert 0 <= rate.seconds(1000, 3, 24) <= rate.seconds(1000, 3, 48) < math.inf
    admission = Admission(2.0, 30.0)
    admission.handle(Arrived("r", MODEL, (UnitSize("r.0", 1000, 3),), rate), 0.0)
    assert all(0 <= s < math.inf for s in admission.outstanding().outstanding_s.values())


def test_a_model_is_unserved_where_every_worker_lacks_its_runtime() -> None:
    lacking = msgspec.structs.replace(FAILED, unserved=True)
    assert fleet(pulse("a", lacking), pulse("b", lacking)).rate(card()).unserved
    assert not fleet(pulse("a", lacking), pulse("b", FAILED)).rate(card()).unserved
    assert fleet(pulse("a", lacking), pulse("b", None)).rate(card()).failed is None
    assert not fleet(pulse("a", FAILED)).rate(card()).unserved
