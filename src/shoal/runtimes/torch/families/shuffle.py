"""From a tower's squares to the tokens of a text, as the Idefics 3 line has it: neighbours become one row.

Reference: `transformers.models.idefics3.modeling_idefics3.Idefics3Connector`.
"""

from __future__ import annotations

import msgspec
from torch import Tensor

from shoal.runtimes.torch.families.pictures import Pictures
from shoal.runtimes.torch.families.siglip import SiglipTower, SiglipVision
from shoal.runtimes.torch.layers import Layers
from shoal.runtimes.torch.linear import Linear
from shoal.runtimes.torch.media import Takes
from shoal.runtimes.torch.weights import Shape


class Shuffle(msgspec.Struct, frozen=True):
    """Of one model.

    Attributes:
        vision: the tower's config.
        factor: so many squares a side become one row.
        place: the token that stands for a row.
        width: of an embedded token.
        project: the name of the product that makes rows as wide, without ``.weight``.
    """

    vision: SiglipVision
    factor: int
    place: int
    width: int
    project: str

    def check(self) -> None:
        """Raises `ValueError` where squares do not become whole rows."""
        if self.factor < 1 or self._side % self.factor:
            raise ValueError(
                f"an image is {self._side} squares a side, no multiple of {self.factor}"
            )

    @property
    def _side(self) -> int:
        return self.vision.image_size // self.vision.patch_size

    def takes(self) -> Takes:
        """Images of the tower's size, each of so many tokens."""
        takes = self.vision.squares().takes()
        tokens = takes.tokens // self.factor**2
        return msgspec.structs.replace(takes, tokens=tokens, place=self.place)

    def tensors(self) -> dict[str, Shape]:
        """The tower's, and what joins its rows."""
        joined = self.vision.hidden_size * self.factor**2
        return {
            **self.vision.tensors(),
            **self.vision.squares().tensors(),
            f"{self.project}.weight": (self.width, joined),
        }

    def pictures(self, layers: Layers, family: str) -> Pictures:
        """What looks at images; `family`: whose processor says how they come."""
        tower = SiglipTower(self.vision, layers, family)
        project = layers.linear(self.project, bias=False)
        return Pictures(self.place, tower, _Connector(self._side, self.factor, project))


class _Connector:
    """[images * squares, hidden] -> [images * tokens, width]: neighbours side by side, projected."""

    def __init__(self, side: int, factor: int, project: Linear) -> None:
        self._side, self._factor, self._project = side, factor, project

    def __call__(self, rows: Tensor) -> Tensor:
        tokens, factor = self._side // self._factor, self._factor
        squares = rows.view(-1, tokens, factor, tokens, factor, rows.shape[1])
        joined = squares.transpose(2, 3).reshape(-1, factor * factor * rows.shape[1])
        return self._project(joined)
