"""From a tower's squares to the tokens of a text, as the Idefics 3 line has it: neighbours become one row.

Reference: `transformers.models.idefics3.modeling_idefics3.Idefics3Connector`.
"""

from __future__ import annotations

from typing import Protocol

import msgspec
from torch import Tensor

from shoal.runtimes.torch.families.pictures import Pictures, check_place
from shoal.runtimes.torch.families.siglip import SiglipTower, SiglipVision
from shoal.runtimes.torch.layers import Layers
from shoal.runtimes.torch.linear import Linear
from shoal.runtimes.torch.media import Takes
from shoal.runtimes.torch.weights import Shape


class Text(Protocol):
    """The config of what reads tokens."""

    @property
    def vocab_size(self) -> int: ...

    @property
    def hidden_size(self) -> int: ...


class Reads(Protocol):
    """A config; `image_token_id`: the token that stands for a row."""

    @property
    def text_config(self) -> Text: ...

    @property
    def vision_config(self) -> SiglipVision: ...

    @property
    def image_token_id(self) -> int: ...


class Shuffle(msgspec.Struct, frozen=True):
    """Of one model.

    Attributes:
        config: what it says of tokens and of the tower.
        factor: so many squares a side become one row.
        project: the name of the product that makes rows as wide as embedded tokens, without ``.weight``.
    """

    config: Reads
    factor: int
    project: str

    def check(self) -> None:
        """Raises `ValueError` where squares do not become whole rows, or take the places of no token."""
        check_place(
            "image_token_id", self.config.image_token_id, self.config.text_config.vocab_size
        )
        if self.factor < 1 or self._side % self.factor:
            raise ValueError(
                f"an image is {self._side} squares a side, no multiple of {self.factor}"
            )

    @property
    def _side(self) -> int:
        return self.config.vision_config.image_size // self.config.vision_config.patch_size

    def takes(self) -> Takes:
        """Images of the tower's size, each of so many tokens."""
        takes = self.config.vision_config.squares().takes()
        tokens = takes.tokens // self.factor**2
        return msgspec.structs.replace(takes, tokens=tokens, place=self.config.image_token_id)

    def tensors(self) -> dict[str, Shape]:
        """The tower's, and what joins its rows."""
        vision = self.config.vision_config
        joined = vision.hidden_size * self.factor**2
        return {
            **vision.tensors(),
            **vision.squares().tensors(),
            f"{self.project}.weight": (self.config.text_config.hidden_size, joined),
        }

    def pictures(self, layers: Layers, family: str) -> Pictures:
        """What looks at images; `family`: whose processor says how they come."""
        tower = SiglipTower(self.config.vision_config, layers, family)
        project = layers.linear(self.project, bias=False)
        connector = _Connector(self._side, self.factor, project)
        return Pictures(self.config.image_token_id, tower, connector)


class _Connector:
    """[images * squares, hidden] -> [images * tokens, width]: neighbours side by side, projected."""

    def __init__(self, side: int, factor: int, project: Linear) -> None:
        self._side, self._factor, self._project = side, factor, project

    def __call__(self, rows: Tensor) -> Tensor:
        tokens, factor = self._side // self._factor, self._factor
        squares = rows.view(-1, tokens, factor, tokens, factor, rows.shape[1])
        joined = squares.transpose(2, 3).reshape(-1, factor * factor * rows.shape[1])
        return self._project(joined)
