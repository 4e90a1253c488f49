import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.cost import MOST_S, NEW_TOKENS, OUTLIER, TERMS, CostModel, Work
from shoal.values import Features, features_of

SEED = (0.002, 30e-6, 0.0, 20e-6)


def batches(rng: random.Random, count: int) -> list[Features]:
    sizes = [rng.choice([1, 1, 2, 8, 30]) for _ in range(count)]
    return [
        features_of([max(3, int(rng.lognormvariate(3.7, 0.8))) for _ in range(size)])
        for size in sizes
    ]


def seconds(weights: tuple[float, float, float, float], f: Features) -> float:
    base, token, square, item = weights
    return base + token * f.tokens + square * f.tokens_squared + item * f.items


@pytest.mark.parametrize(
    "true",
    [(1e-4, 0.0, 0.0, 2e-6), (2e-3, 1.2e-4, 1e-8, 1e-5), (0.05, 1e-6, 0.0, 0.0)],
)
def test_learns_what_batches_cost(true: tuple[float, float, float, float]) -> None:
    rng = random.Random(7)
    model = CostModel(*SEED)
    errors = []
    for f in batches(rng, 400):
        actual = seconds(true, f) * rng.uniform(0.95, 1.05)
        errors.append(abs(model.batch_s(f) - actual) / actual)
        model.learn(f, actual)
    assert sum(errors[-100:]) / 100 < 0.06
    p50, p90 = model.errors
    assert p50 < 0.06
    assert p50 < p90 < 0.15


def test_a_few_tiny_batches_do_not_make_long_texts_free() -> None:
    ratios = []
    for seed in range(100):
        rng = random.Random(seed)
        model = CostModel(0.003, 2e-4, 0.0, 2e-5)
        for _ in range(12):
            tiny = features_of([rng.randint(1, 4)])
            model.learn(tiny, (0.004 + 3.3e-4 * tiny.tokens) * rng.lognormvariate(0, 0.3))
        ratios.append(model.item_s(254) / (3.3e-4 * 254))
    assert min(ratios) > 0.2
    assert max(ratios) < 3


def test_a_slowdown_is_learnt_within_a_hundred_batches() -> None:
    model = CostModel(*SEED)
    same = features_of([100] * 4)
    for _ in range(50):
        model.learn(same, 0.01)
    for _ in range(100):
        model.learn(same, 0.03)
    assert model.batch_s(same) == pytest.approx(0.03, rel=0.2)


def test_equal_batches_leave_what_they_cannot_tell_apart() -> None:
    model = CostModel(*SEED)
    same = features_of([12])
    for _ in range(5000):
        model.learn(same, 0.004)
    assert model.batch_s(same) == pytest.approx(0.004, rel=0.02)
    other = features_of([48] * 8)
    assert 0.0005 < model.batch_s(other) < 0.5
    model.learn(other, 0.02)
    assert model.batch_s(same) == pytest.approx(0.004, rel=0.5)


@pytest.mark.parametrize("nonsense", [math.nan, math.inf, 0.0, -1.0])
def test_nonsense_changes_nothing(nonsense: float) -> None:
    model = CostModel(*SEED)
    f = features_of([20, 30])
    before = model.batch_s(f)
    model.learn(f, nonsense)
    assert model.batch_s(f) == before


def test_one_stall_is_dropped_but_a_new_normal_is_learnt() -> None:
    model = CostModel(*SEED)
    f = features_of([100] * 4)
    for _ in range(50):
        model.learn(f, 0.01)
    model.learn(f, 0.01 * OUTLIER * 10)
    assert model.batch_s(f) == pytest.approx(0.01, rel=0.05)
    for _ in range(300):
        model.learn(f, 0.2)
    assert model.batch_s(f) == pytest.approx(0.2, rel=0.1)


def test_weights_stay_non_negative_and_predictions_positive() -> None:
    rng = random.Random(3)
    model = CostModel(*SEED)
    for f in batches(rng, 500):
        model.learn(f, rng.expovariate(50) + 1e-9)
        assert min(model.base_s, model.token_s, model.per_item_s) >= 0
        assert 0 < model.batch_s(f) < math.inf


def test_the_line_meets_a_short_and_the_longest_item() -> None:
    model = CostModel(0.0, 1e-4, 1e-6, 1e-5)
    token_s, item_s = model.line(256)
    assert token_s * 256 + item_s == pytest.approx(model.item_s(256), rel=1e-3)
    assert model.line(1)[0] >= 0


def test_each_kind_of_work_learns_its_own_terms() -> None:
    rng = random.Random(5)
    model = CostModel(0.01, 1e-4, 0.0, 1e-3, 1e-3, terms=TERMS["generate"])
    for _ in range(400):
        items = rng.randint(1, 8)
        f = Features(items * 10, items, new_tokens=items * rng.randint(5, 400))
        model.learn(f, 0.02 + 5e-4 * f.new_tokens + 2e-3 * f.items)
    shown = Features(40, 4, new_tokens=400)
    assert model.batch_s(shown) == pytest.approx(0.02 + 5e-4 * 400 + 2e-3 * 4, rel=0.1)


def writer() -> CostModel:
    """A token that is generated takes 10 ms, and nothing else anything that counts."""
    return CostModel(0.0, 0.0, 0.0, 0.0, 0.01, terms=TERMS["generate"])


def write(model: CostModel, tokens: int, *, cut: bool = False, times: int = 50) -> None:
    for _ in range(times):
        model.learn(Features(10, new_tokens=tokens), 0.01 * tokens, cut=cut)


def test_a_text_costs_as_many_tokens_as_it_may_become_and_no_more_than_are_expected() -> None:
    model = writer()
    write(model, 300, times=200)
    assert model.item_s(10, 8) == pytest.approx(0.08, rel=0.02)
    assert model.item_s(10, 2000) == model.item_s(10) == pytest.approx(3.0, rel=0.02)
    assert model.batch_s(Features(10, new_tokens=8)) == pytest.approx(0.08, rel=0.02)
    assert model.batch_s(Features(20, 2, new_tokens=16)) == pytest.approx(0.16, rel=0.02)


def test_texts_that_were_cut_make_none_seem_shorter() -> None:
    model = writer()
    write(model, 8, cut=True)
    assert model.new_tokens == NEW_TOKENS
    write(model, 8, times=200)
    assert model.new_tokens == pytest.approx(8, rel=0.01)
    write(model, 400, cut=True, times=200)
    assert model.new_tokens == pytest.approx(800, rel=0.01)


@given(
    st.lists(st.tuples(st.integers(0, 10**9), st.floats(1e-6, 1e3), st.booleans()), max_size=40),
    st.integers(1, 10**6),
    st.integers(0, 10**6),
)
def test_a_text_that_may_become_longer_costs_no_less_and_none_is_free(
    told: list[tuple[int, float, bool]], most: int, more: int
) -> None:
    model = writer()
    for tokens, took_s, cut in told:
        model.learn(Features(10, new_tokens=tokens), took_s, cut=cut)
    read_s = model.per_item_s + 10 * model.token_s
    text_s, longer_s = model.item_s(10, most), model.item_s(10, most + more)
    assert 0 < text_s <= longer_s <= model.item_s(10)
    assert text_s <= (read_s + most * model.new_token_s) * (1 + 1e-9)


def test_a_seed_of_nothing_still_learns() -> None:
    model = CostModel(0.0, 0.0, 0.0, 0.0)
    f = features_of([40] * 3)
    for _ in range(200):
        model.learn(f, 0.02)
    assert model.batch_s(f) == pytest.approx(0.02, rel=0.05)


ANY_NUMBER = st.floats() | st.just(0.0) | st.floats(1e-9, 1e3)
ANY_COUNT = st.integers(0, 10**6) | st.integers() | st.just(10**400)
ANY_FEATURES = st.builds(Features, ANY_COUNT, ANY_COUNT, ANY_COUNT, ANY_COUNT)
ANY_BATCHES = st.lists(st.tuples(ANY_FEATURES, ANY_NUMBER), max_size=60)


def is_sane(model: CostModel, shown: Features) -> bool:
    predicted = model.batch_s(shown)
    known = [model.base_s, model.token_s, model.per_item_s, *model.errors, *model.line(512)]
    known += [model.new_token_s, model.new_tokens, model.item_s(9, 9)]
    return 0 < predicted <= MOST_S and all(0 <= n < math.inf for n in known)


@given(st.sampled_from(sorted(TERMS)), st.lists(ANY_NUMBER, min_size=5, max_size=5), ANY_BATCHES)
def test_whatever_it_is_told_it_predicts_seconds(
    work: Work, seed: list[float], told: list[tuple[Features, float]]
) -> None:
    model = CostModel(*seed[: 1 + len(TERMS[work])], terms=TERMS[work])
    for features, seconds in told:
        model.learn(features, seconds, cut=seconds > 1.0)
        assert is_sane(model, features)
    assert is_sane(model, features_of([3, 200]))


@given(ANY_BATCHES, st.sampled_from([1e-6, 1e-3, 1.0, 1e4]), st.integers(0, 99))
def test_it_gets_over_nonsense(
    told: list[tuple[Features, float]], constant: float, seed: int
) -> None:
    rng = random.Random(seed)
    model = CostModel(*SEED)
    for features, seconds_ in told:
        model.learn(features, seconds_)
    for f in batches(rng, 30):
        model.learn(f, constant)
    true = (2e-3, 1.2e-4, 0.0, 1e-5)
    for f in batches(rng, 300):
        model.learn(f, seconds(true, f))
    errors = [abs(model.batch_s(f) / seconds(true, f) - 1) for f in batches(rng, 40)]
    assert sorted(errors)[20] < 0.1
    assert max(errors) < 0.6
