"""Looks at images in stages: how many follow each other, of which images, and what is left of one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

from shoal.runtimes.torch.generating.looking import Image, Looking
from shoal.runtimes.torch.packed import Packed

CPU = torch.device("cpu")
#: More time than stages take, and less.
LONG_S, SHORT_S = 1e6, 0.0


class Seer:
    """An image becomes two rows of its first pixel after four stages.

    begun: images of each look; done: stages of all; fails: the next stage runs out of memory.
    """

    squares, bytes_per_token, stages, row_bytes = 4, 1, 4, 1

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.done = 0
        self.fails = False

    def look(self, images: Tensor) -> Iterator[Tensor]:
        self.begun.append(len(images))
        for _ in range(self.stages):
            if self.fails:
                raise MemoryError
            self.done += 1
            yield images[:, 0, 0].repeat_interleave(2, 0)

    def __call__(self, rows: Tensor, packed: Packed) -> Tensor:
        raise AssertionError("no batch is computed here")


def images(count: int) -> list[Image]:
    return [Image(np.full((2, 2, 3), number, np.uint8)) for number in range(count)]


def unseen(of: list[Image]) -> list[Image]:
    return [image for image in of if image.rows is None]


def test_with_time_a_look_is_whole_and_of_as_many_as_fit_together() -> None:
    seer, some = Seer(), images(5)
    looking = Looking(seer, 11, 1e-3, CPU)
    while left := unseen(some):
        looking.go_on(left, LONG_S)
    assert seer.begun == [2, 2, 1]
    assert seer.done == 3 * 4
    for number, image in enumerate(some):
        assert image.rows is not None and image.pixels is None
        assert image.rows.tolist() == [[number] * 3] * 2


def test_without_time_a_stage_is_the_least() -> None:
    seer, some = Seer(), images(2)
    looking = Looking(seer, 1, 1e-3, CPU)
    for stage in range(1, 9):
        looked, _ = looking.go_on(unseen(some), SHORT_S)
        assert (seer.done, looked) == (stage, some[:1] if stage <= 4 else some[1:])
    assert not unseen(some)


def test_stages_are_as_many_as_they_were_seen_to_take_time_for() -> None:
    """A wrong first guess, of an hour a row, is unlearnt."""
    seer = Seer()
    looking = Looking(seer, 1, 3600.0, CPU)
    for _ in range(200):
        some = images(1)
        while left := unseen(some):
            looking.go_on(left, 30.0)
    before, some = seer.done, images(1)
    looking.go_on(some, 30.0)
    assert seer.done == before + 4


def test_a_look_that_nobody_wants_any_more_is_given_up() -> None:
    seer, (one, two) = Seer(), images(2)
    looking = Looking(seer, 1, 1e-3, CPU)
    looking.go_on([one, two], SHORT_S)
    looking.go_on([two], LONG_S)
    assert one.rows is None and two.rows is not None
    assert (seer.begun, seer.done) == ([1, 1], 1 + 4)


def test_a_look_that_fails_is_begun_anew() -> None:
    seer, some = Seer(), images(1)
    looking = Looking(seer, 1, 1e-3, CPU)
    looking.go_on(some, SHORT_S)
    seer.fails = True
    with pytest.raises(MemoryError):
        looking.go_on(some, SHORT_S)
    seer.fails = False
    looking.go_on(some, LONG_S)
    assert some[0].rows is not None
    assert (seer.begun, seer.done) == ([1, 1], 1 + 4)
