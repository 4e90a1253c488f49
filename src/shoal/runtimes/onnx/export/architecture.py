"""What exported encoders differ in: keys of config.json, names of tensors, where positions start.

All of them are layers that normalise after each sum. Reference: `BertModel`, `DistilBertModel` and
`RobertaModel` of transformers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from shoal.catalog.depth import unlikely_depth
from shoal.errors import SourceError
from shoal.spelling import nearest

#: Between the two last products of a layer -> an ONNX operation and how it approximates.
ACTIVATIONS = {"gelu": "none", "gelu_new": "tanh", "gelu_pytorch_tanh": "tanh", "relu": ""}

T = TypeVar("T", bound=msgspec.Struct)


class Names(msgspec.Struct, frozen=True):
    """The parts of a layer, below its own name."""

    query: str = "attention.self.query"
    key: str = "attention.self.key"
    value: str = "attention.self.value"
    out: str = "attention.output.dense"
    attention_norm: str = "attention.output.LayerNorm"
    up: str = "intermediate.dense"
    down: str = "output.dense"
    products_norm: str = "output.LayerNorm"


class Architecture(msgspec.Struct, frozen=True):
    """One encoder.

    Attributes:
        prefix: of its tensors, in checkpoints with a head.
        layers: their names, first to last.
        padding: the padding token where positions count from behind it; None: from 0.
        types: whether the second of two texts has a token type of its own.
        pooler: the product and its activation between the first token and the labels of a text.
        classifier, labels: the products that give the labels of a text and of its tokens.
    """

    prefix: str
    words: int
    positions: int
    hidden: int
    heads: int
    layers: tuple[str, ...]
    eps: float
    activation: str
    names: Names = Names()
    padding: int | None = None
    types: bool = True
    pooler: tuple[str, Literal["Tanh", "Relu"]] = ("pooler.dense", "Tanh")
    classifier: str = "classifier"
    labels: str = "classifier"

    @property
    def max_tokens(self) -> int:
        """The longest item that has a position for each token."""
        return self.positions if self.padding is None else self.positions - self.padding - 1


class _Bert(msgspec.Struct):
    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    max_position_embeddings: int
    layer_norm_eps: float = 1e-12
    hidden_act: str = "gelu"
    pad_token_id: int | None = None
    position_embedding_type: Literal["absolute"] = "absolute"
    is_decoder: Literal[False] = False

    def architecture(self, prefix: str) -> Architecture:
        return Architecture(
            prefix=prefix,
            words=self.vocab_size,
            positions=self.max_position_embeddings,
            hidden=self.hidden_size,
            heads=self.num_attention_heads,
            layers=tuple(f"encoder.layer.{n}" for n in range(self.num_hidden_layers)),
            eps=self.layer_norm_eps,
            activation=self.hidden_act,
        )


class _DistilBert(msgspec.Struct):
    vocab_size: int
    dim: int
    n_layers: int
    n_heads: int
    max_position_embeddings: int
    activation: str = "gelu"


def _bert(path: Path) -> Architecture:
    return _read(path, _Bert).architecture("bert.")


def _roberta(path: Path) -> Architecture:
    config = _read(path, _Bert)
    return msgspec.structs.replace(
        config.architecture("roberta."),
        padding=1 if config.pad_token_id is None else config.pad_token_id,
        types=False,
        pooler=("classifier.dense", "Tanh"),
        classifier="classifier.out_proj",
    )


def _distilbert(path: Path) -> Architecture:
    config = _read(path, _DistilBert)
    return Architecture(
        prefix="distilbert.",
        words=config.vocab_size,
        positions=config.max_position_embeddings,
        hidden=config.dim,
        heads=config.n_heads,
        layers=tuple(f"transformer.layer.{n}" for n in range(config.n_layers)),
        eps=1e-12,  # of every norm; no key says so
        activation=config.activation,
        names=Names(
            query="attention.q_lin",
            key="attention.k_lin",
            value="attention.v_lin",
            out="attention.out_lin",
            attention_norm="sa_layer_norm",
            up="ffn.lin1",
            down="ffn.lin2",
            products_norm="output_layer_norm",
        ),
        types=False,
        pooler=("pre_classifier", "Relu"),
    )


#: Families that graphs are made of, as cards name them.
FAMILIES = {"bert": _bert, "distilbert": _distilbert, "roberta": _roberta}


def architecture(folder: Path, family: str) -> Architecture:
    """That of a model's folder. Raises `SourceError` naming what is not exported."""
    if family not in FAMILIES:
        raise SourceError(
            f"no graph is made of family '{family}'{nearest(family, FAMILIES)}; "
            f"exported are {', '.join(FAMILIES)}"
        )
    found = FAMILIES[family](folder / "config.json")
    if found.activation not in ACTIVATIONS:
        raise SourceError(
            f"{folder / 'config.json'}: activation '{found.activation}' is not exported; "
            f"exported are {', '.join(ACTIVATIONS)}"
        )
    if found.heads < 1 or found.hidden % found.heads:
        raise SourceError(
            f"{folder / 'config.json'}: {found.hidden} numbers a token are not shared evenly by "
            f"{found.heads} heads"
        )
    return found


def _read(path: Path, kind: type[T]) -> T:
    try:
        config = msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError) as error:
        raise SourceError(f"{path} cannot be exported: {error}") from None
    if (wrong := unlikely_depth(config)) is not None:
        raise SourceError(f"{path} cannot be exported: {wrong}")
    return config
