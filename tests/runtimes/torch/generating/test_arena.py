"""Ranges never overlap, prefixes are found where they are, and what is in use is never given away."""

from __future__ import annotations

import random

import pytest

from shoal.runtimes.torch.generating.arena import BLOCK, Arena, Range


def test_a_prefix_is_found_up_to_its_last_whole_block() -> None:
    arena = Arena(200)
    prompt = list(range(40))
    first = arena.take(prompt, 50)
    assert first is not None and first.reused == 0
    arena.computed(first.range, prompt, 40)
    arena.release(first.range)
    again = arena.take([*prompt, 7, 8], 60)
    assert again is not None
    assert (again.reused, again.source) == (2 * BLOCK, first.range.start)


def test_blocks_of_other_marks_are_others() -> None:
    """Equal tokens whose second block has another image, and those with none."""
    arena = Arena(400)
    prompt = [5] * 60
    first = arena.take(prompt, 60, {1: b"a"})
    assert first is not None
    arena.computed(first.range, prompt, 60, {1: b"a"})
    reused = []
    for marks in ({1: b"a"}, {1: b"b"}, {0: b"a"}, {}):
        taken = arena.take(prompt, 60, marks)
        assert taken is not None
        reused.append(taken.reused)
    assert reused == [3 * BLOCK, BLOCK, 0, BLOCK]


def test_the_last_token_of_a_prompt_is_always_computed() -> None:
    arena = Arena(200)
    prompt = list(range(2 * BLOCK))
    first = arena.take(prompt, 40)
    assert first is not None
    arena.computed(first.range, prompt, len(prompt))
    again = arena.take(prompt, 40)
    assert again is not None and again.reused == BLOCK


def test_what_is_kept_goes_when_its_room_is_needed() -> None:
    arena = Arena(100)
    kept = arena.take(list(range(48)), 60)
    assert kept is not None
    arena.computed(kept.range, list(range(48)), 48)
    arena.release(kept.range)
    other = arena.take([9] * 60, 90)
    assert other is not None and other.reused == 0
    assert arena.take([1], 11) is None
    arena.release(other.range)
    last = arena.take(list(range(48)), 100)
    assert last is not None and last.reused == 0


def test_a_prefix_that_is_in_the_way_is_given_up() -> None:
    arena = Arena(100)
    prompt = list(range(48))
    kept = arena.take(prompt, 60)
    assert kept is not None
    arena.computed(kept.range, prompt, 48)
    arena.release(kept.range)
    whole = arena.take(prompt, 100)
    assert whole is not None and whole.reused == 0


@pytest.mark.parametrize("seed", range(20))
def test_any_order_of_events(seed: int) -> None:
    rng = random.Random(seed)
    arena = Arena(400)
    alphabet = [[n] * BLOCK for n in range(3)]
    under_way: dict[Range, list[int]] = {}
    held: dict[int, int] = {}  # place -> the token whose keys lie there
    began = 0
    for _ in range(600):
        if under_way and rng.random() < 0.45:
            range_ = rng.choice(list(under_way))
            tokens = under_way[range_]
            count = rng.randrange(len(tokens) + 1)
            held.update({range_.start + at: hash(tuple(tokens[: at + 1])) for at in range(count)})
            arena.computed(range_, tokens, count)
            if rng.random() < 0.7:
                del under_way[range_]
                arena.release(range_)
            continue
        tokens = [t for _ in range(rng.randrange(1, 8)) for t in rng.choice(alphabet)]
        tokens = tokens[: rng.randrange(1, len(tokens) + 1)]
        taken = arena.take(tokens, len(tokens) + rng.randrange(40))
        if taken is None:
            assert under_way
            continue
        began += 1
        assert 0 <= taken.range.start < taken.range.stop <= 400
        for other in under_way:
            assert taken.range.stop <= other.start or other.stop <= taken.range.start
        assert taken.reused < len(tokens)
        copied = {taken.range.start + at: held.get(taken.source + at) for at in range(taken.reused)}
        for at in range(taken.reused):
            assert copied[taken.range.start + at] == hash(tuple(tokens[: at + 1]))
        for place in range(taken.range.start, taken.range.stop):
            held.pop(place, None)
        held.update({place: of for place, of in copied.items() if of is not None})
        under_way[taken.range] = tokens
    assert began > 50
