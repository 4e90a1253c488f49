"""Whisper (Radford et al., 2022): sound to text, by an encoder of frames and a decoder of tokens.

Serves `WhisperForConditionalGeneration`. Reference: `transformers.models.whisper.modeling_whisper`.
"""

from __future__ import annotations

from typing import Literal

import msgspec
import torch
from torch import Tensor
from torch.nn.functional import conv1d, gelu, scaled_dot_product_attention

from shoal.runtimes.torch.blocks import Block, Names, PreNorm
from shoal.runtimes.torch.families.base import Family, check_heads
from shoal.runtimes.torch.heads.layout import Layout
from shoal.runtimes.torch.layers import Layers
from shoal.runtimes.torch.linear import Activation
from shoal.runtimes.torch.media import Takes
from shoal.runtimes.torch.packed import Packed
from shoal.runtimes.torch.weights import Shape
from shoal.tasks.sound import silence

_NAMES = Names(
    attention_norm="self_attn_layer_norm",
    query="self_attn.q_proj",
    key="self_attn.k_proj",
    value="self_attn.v_proj",
    out="self_attn.out_proj",
    products_norm="final_layer_norm",
    up="fc1",
    down="fc2",
)
_EPS = 1e-5
#: Clips of a pass at least: a step of the decoder reads all of its weights, for one clip as for
#: several.
_TOGETHER = 4


class WhisperConfig(msgspec.Struct, frozen=True):
    """The keys of config.json that change what is computed."""

    model_type: Literal["whisper"]
    vocab_size: int
    d_model: int
    encoder_layers: int
    encoder_attention_heads: int
    encoder_ffn_dim: int
    decoder_layers: int
    decoder_attention_heads: int
    decoder_ffn_dim: int
    num_mel_bins: int = 80
    max_source_positions: int = 1500
    max_target_positions: int = 448
    activation_function: Activation = "gelu"
    scale_embedding: Literal[False] = False

    def __post_init__(self) -> None:
        check_heads(self, "d_model", "encoder_attention_heads")
        check_heads(self, "d_model", "decoder_attention_heads")

    def block(self, heads: int, inner: int) -> Block:
        return Block(
            _NAMES,
            self.d_model,
            inner,
            heads,
            _EPS,
            self.activation_function,
            biased=(True, False, True),
        )

    @property
    def encoder_block(self) -> Block:
        return self.block(self.encoder_attention_heads, self.encoder_ffn_dim)

    @property
    def decoder_block(self) -> Block:
        return self.block(self.decoder_attention_heads, self.decoder_ffn_dim)


def _rename(stored: str) -> str | None:
    # The last product is by the table of tokens, whatever is stored beside it.
    return None if stored == "proj_out.weight" else stored.removeprefix("model.")


def _takes(config: WhisperConfig) -> Takes:
    shape = config.num_mel_bins, 2 * config.max_source_positions
    return Takes("sound", "float32", shape, config.max_source_positions, silence, _TOGETHER)


def _tensors(config: WhisperConfig) -> dict[str, Shape]:
    hidden = config.d_model
    shapes: dict[str, Shape] = {
        "encoder.conv1.weight": (hidden, config.num_mel_bins, 3),
        "encoder.conv1.bias": (hidden,),
        "encoder.conv2.weight": (hidden, hidden, 3),
        "encoder.conv2.bias": (hidden,),
        "encoder.embed_positions.weight": (config.max_source_positions, hidden),
        "decoder.embed_positions.weight": (config.max_target_positions, hidden),
        "decoder.embed_tokens.weight": (config.vocab_size, hidden),
    }
    for side in ("encoder", "decoder"):
        shapes |= {f"{side}.layer_norm.{part}": (hidden,) for part in ("weight", "bias")}
    for number in range(config.encoder_layers):
        shapes |= config.encoder_block.tensors(f"encoder.layers.{number}")
    for number in range(config.decoder_layers):
        at = f"decoder.layers.{number}"
        shapes |= config.decoder_block.tensors(at)
        # Attention to what is heard has the names of attention to what was said.
        for name, shape in config.decoder_block.tensors(at).items():
            if "self_attn" in name:
                shapes[name.replace("self_attn", "encoder_attn")] = shape
    return shapes


def _heads(config: WhisperConfig) -> Layout:
    return Layout(speaker=lambda layers: Speaker(config, layers))


class Whisper:
    """The encoder; see `Encoder` for its attributes."""

    def __init__(self, config: WhisperConfig, layers: Layers) -> None:
        self.vocabulary = 0
        self.max_tokens = config.max_source_positions
        self.width = config.d_model
        self.activation_bytes_per_token = config.encoder_block.bytes_per_token(layers)
        self._convolutions = [
            (layers.tensor(f"encoder.{name}.weight"), layers.tensor(f"encoder.{name}.bias"), stride)
            for name, stride in (("conv1", 1), ("conv2", 2))
        ]
        self._positions = layers.tensor("encoder.embed_positions.weight")
        self._blocks = [
            PreNorm(config.encoder_block, f"encoder.layers.{number}", layers)
            for number in range(config.encoder_layers)
        ]
        self._norm = layers.layer_norm("encoder.layer_norm", _EPS)

    def forward(self, packed: Packed) -> Tensor:
        """Hidden states after the last layer, [computed, hidden]: two frames each."""
        assert packed.media is not None, "no item of tokens comes here"
        frames = packed.media.to(self._positions.dtype)
        for weight, bias, stride in self._convolutions:
            frames = gelu(conv1d(frames, weight, bias, stride=stride, padding=1))
        hidden = (frames.transpose(1, 2) + self._positions).flatten(0, 1)
        for block in self._blocks:
            hidden = block(hidden, packed)
        return self._norm(hidden)


#: Keys and values.
Pair = tuple[Tensor, Tensor]


class Memory(msgspec.Struct):
    """What the decoder keeps of some clips, a pair of keys and values a layer.

    Attributes:
        heard: [clips, heads, frames, width].
        said: [clips, heads, most tokens, width], of which `length` tokens are filled.
    """

    heard: list[Pair]
    said: list[Pair]
    length: int = 0

    def forget(self) -> None:
        """Nothing was said yet."""
        self.length = 0

    def keep(self, clips: Tensor) -> Memory:
        """That of these clips alone."""
        heard = [(keys[clips], values[clips]) for keys, values in self.heard]
        said = [(keys[clips], values[clips]) for keys, values in self.said]
        return Memory(heard, said, self.length)


class Speaker:
    """The decoder: what may follow the tokens that were said, given what was heard.

    Attributes:
        most_tokens: of a text, those included that it begins with.
        bytes_per_token: memory that one row of what is heard takes, in all layers.
    """

    def __init__(self, config: WhisperConfig, layers: Layers) -> None:
        self.most_tokens = config.max_target_positions
        self.bytes_per_token = 2 * config.decoder_layers * config.d_model * layers.dtype.itemsize
        self._words = layers.table("decoder.embed_tokens.weight")
        self._positions = layers.tensor("decoder.embed_positions.weight")
        self._blocks = [
            _SpeakerBlock(config.decoder_block, f"decoder.layers.{number}", layers)
            for number in range(config.decoder_layers)
        ]
        self._norm = layers.layer_norm("decoder.layer_norm", _EPS)
        self._logits = layers.product(["decoder.embed_tokens.weight"], [])

    def listen(self, hidden: Tensor) -> Memory:
        """What is kept of clips: hidden [clips, frames, width]."""
        return Memory(
            [block.heard(hidden) for block in self._blocks],
            [block.empty(len(hidden), self.most_tokens) for block in self._blocks],
        )

    def say(self, tokens: Tensor, memory: Memory) -> Tensor:
        """Logits of the next token, [clips, vocabulary] float32, after `tokens` [clips, n] more."""
        clips, count = tokens.shape
        start = memory.length
        memory.length = start + count
        rows = torch.embedding(self._words, tokens) + self._positions[start : start + count]
        rows = rows.flatten(0, 1)
        for block, heard, said in zip(self._blocks, memory.heard, memory.said, strict=True):
            rows = block(rows, clips, heard, said, start)
        last = rows.view(clips, count, -1)[:, -1]
        return self._logits(self._norm(last)).float()


class _SpeakerBlock:
    """Attends to what was said, then to what is heard."""

    def __init__(self, block: Block, at: str, layers: Layers) -> None:
        self._block = PreNorm(block, at, layers)
        self._dtype, self._device = layers.dtype, layers.device
        self._heads, self._width = block.heads, block.hidden // block.heads
        heard = f"{at}.encoder_attn"
        self._before = layers.layer_norm(f"{heard}_layer_norm", _EPS)
        self._query = layers.linear(f"{heard}.q_proj")
        self._both = layers.product(
            [f"{heard}.k_proj.weight", f"{heard}.v_proj.weight"], [None, f"{heard}.v_proj.bias"]
        )
        self._out = layers.linear(f"{heard}.out_proj")

    def heard(self, hidden: Tensor) -> Pair:
        clips, frames, _ = hidden.shape
        both = self._both(hidden.flatten(0, 1)).view(clips, frames, 2, self._heads, self._width)
        key, value = both.permute(2, 0, 3, 1, 4).contiguous()
        return key, value

    def empty(self, clips: int, tokens: int) -> Pair:
        shape = clips, self._heads, tokens, self._width
        key, value = torch.empty((2, *shape), dtype=self._dtype, device=self._device)
        return key, value

    def __call__(self, rows: Tensor, clips: int, heard: Pair, said: Pair, start: int) -> Tensor:
        """Rows of the tokens from `start` on, which are added to `said`: [clips * n, width]."""

        def attend(qkv: Tensor) -> Tensor:
            split = qkv.view(clips, -1, 3, self._heads, self._width)
            query, key, value = split.permute(2, 0, 3, 1, 4)
            stop = start + key.shape[2]
            said[0][:, :, start:stop], said[1][:, :, start:stop] = key, value
            return self._seen(query, said[0][:, :, :stop], said[1][:, :, :stop], start)

        rows = self._block.attended(rows, attend)
        query = self._query(self._before(rows)).view(clips, -1, self._heads, self._width)
        rows = self._out.add(
            _rows(scaled_dot_product_attention(query.transpose(1, 2), *heard)), rows
        )
        return self._block.processed(rows)

    @staticmethod
    def _seen(query: Tensor, key: Tensor, value: Tensor, start: int) -> Tensor:
        """Of several new tokens, each sees those before it."""
        mask = None
        if query.shape[2] > 1:
            mask = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=query.device)
            mask = mask.tril(start)
        return _rows(scaled_dot_product_attention(query, key, value, mask))


def _rows(attended: Tensor) -> Tensor:
    """[clips, heads, n, width] -> [clips * n, heads * width]."""
    return attended.transpose(1, 2).flatten(2).flatten(0, 1)


WHISPER = Family(WhisperConfig, _rename, _tensors, Whisper, _heads, takes=_takes)
