"""The nodes of an encoder: rows of tokens and a mask in, hidden states of the tokens out.

What a caller gives is padded, [items, longest]; all that is computed of one token alone is not: the
first nodes take the tokens that the mask has, end to end, and only attention has them side by side.
A caller that gives texts of all lengths so pays for padding in attention alone, which is a tenth of
what is computed of 256 tokens.
"""

from __future__ import annotations

import numpy as np

from shoal.errors import SourceError
from shoal.runtimes.onnx.export.architecture import ACTIVATIONS, Architecture
from shoal.runtimes.onnx.export.graph import MICROSOFT, GraphWriter
from shoal.runtimes.onnx.export.products import Products
from shoal.runtimes.onnx.export.tensors import Floats, Tensors

INPUTS = ("input_ids", "attention_mask", "token_type_ids")

_INT32 = 6  # of TensorProto.DataType


class Encoder:
    """Builds one encoder. `first`: where each item's first token lies, [items]."""

    def __init__(
        self, graph: GraphWriter, tensors: Tensors, architecture: Architecture, products: Products
    ) -> None:
        self._graph, self._tensors = graph, tensors
        self._of, self._products = architecture, products
        node = graph.node
        for name in INPUTS:
            graph.input(name, "int64", ["items", "longest"])
        self._one, self._flat = self._numbers(1), self._numbers(-1)
        mask = node("Reshape", "attention_mask", self._flat)
        self._rows = node("Reshape", node("NonZero", mask), self._flat)
        counts = node("ReduceSum", "attention_mask", self._one, keepdims=0)
        self._lengths = node("Cast", counts, to=_INT32)
        self.first = node("CumSum", counts, self._number(0), exclusive=1)
        # Of each place in the padded rows the token there; of a padded one, the last before it.
        self._places = node("Sub", node("CumSum", mask, self._number(0)), self._number(1))
        width = self._numbers(self._of.hidden)
        self._padded = node("Concat", node("Shape", "attention_mask"), width, axis=0)
        self._alone = node(
            "Concat", node("Shape", counts), self._numbers(1, self._of.hidden), axis=0
        )

    def hidden(self, *, first_only: bool) -> str:
        """Hidden states after the last layer: [tokens, hidden], or of first tokens [items, hidden]."""
        rows = self._embedded()
        for name in self._of.layers[:-1]:
            rows = self._layer(name, rows)
        return self._layer(self._of.layers[-1], rows, first_only=first_only)

    def linear(self, rows: str, name: str) -> tuple[str, int]:
        """A product and its bias, in float32, and how many columns it has."""
        weight = self._read(f"{name}.weight", None, None)
        factors = (self._graph.weights(weight), self._vector(f"{name}.bias", len(weight)))
        return self._graph.node("Gemm", rows, *factors, transB=1), len(weight)

    def _embedded(self) -> str:
        node, of = self._graph.node, self._of
        table = "embeddings.word_embeddings.weight"
        words = self._graph.weights(self._read(table, of.words, of.hidden))
        positions = self._read("embeddings.position_embeddings.weight", of.positions, of.hidden)
        types = "embeddings.token_type_embeddings.weight"
        parts = [node("Gather", words, self._taken("input_ids"))]
        if types in self._tensors:
            # The first type's row is added to the positions once; others are what they differ by.
            rows = self._read(types, None, of.hidden)
            positions = positions + rows[0]
            if of.types and len(rows) > 1:
                other = self._graph.constant(rows - rows[0])
                parts.append(node("Gather", other, self._taken("token_type_ids")))
        places = self._graph.weights(positions)
        parts.append(node("Gather", places, self._taken(self._positions())))
        total = parts[0]
        for part in parts[1:]:
            total = node("Add", total, part)
        weights = self._norm("embeddings.LayerNorm")
        return node("LayerNormalization", total, *weights, axis=-1, epsilon=of.eps)

    def _positions(self) -> str:
        """[items, longest]. Those of fairseq's models count tokens that are no padding, from behind
        its number (`transformers.models.roberta.modeling_roberta.RobertaEmbeddings`)."""
        node, padding = self._graph.node, self._of.padding
        if padding is None:
            counted = node("CumSum", "attention_mask", self._number(1))
            return node("Sub", counted, self._number(1))
        filler = self._number(padding)
        real = node("Cast", node("Not", node("Equal", "input_ids", filler)), to=7)
        counted = node("Mul", node("CumSum", real, self._number(1)), real)
        return node("Add", counted, filler)

    def _layer(self, at: str, rows: str, *, first_only: bool = False) -> str:
        node, names, of = self._graph.node, self._of.names, self._of
        asking = node("Gather", rows, self.first) if first_only else rows
        attended = self._attended(at, rows, asking, first_only=first_only)
        out = self._product(attended, f"{at}.{names.out}", of.hidden)
        rows = self._summed(out, asking, f"{at}.{names.attention_norm}", f"{at}.{names.out}.bias")
        up = self._product(rows, f"{at}.{names.up}", None)
        raised = self._activated(up, f"{at}.{names.up}.bias")
        down = self._product(raised, f"{at}.{names.down}", of.hidden)
        return self._summed(down, rows, f"{at}.{names.products_norm}", f"{at}.{names.down}.bias")

    def _attended(self, at: str, rows: str, asking: str, *, first_only: bool) -> str:
        node, names, of = self._graph.node, self._of.names, self._of
        three = [f"{at}.{name}" for name in (names.query, names.key, names.value)]
        query = self._product(asking, three[0], of.hidden)
        query = node("Reshape", query, self._alone) if first_only else self._side_by_side(query)
        others = [self._side_by_side(self._product(rows, name, of.hidden)) for name in three[1:]]
        biases = [self._read(f"{name}.bias", of.hidden) for name in three]
        attended = node(
            "MultiHeadAttention",
            *(query, *others, self._graph.constant(np.concatenate(biases)), self._lengths),
            domain=MICROSOFT,
            num_heads=of.heads,
        )
        flat = node("Reshape", attended, self._numbers(-1, of.hidden))
        return flat if first_only else node("Gather", flat, self._rows)

    def _side_by_side(self, rows: str) -> str:
        """[tokens, hidden] -> [items, longest, hidden]."""
        node = self._graph.node
        return node("Reshape", node("Gather", rows, self._places), self._padded)

    def _summed(self, rows: str, residual: str, norm: str, bias: str) -> str:
        inputs = (rows, residual, *self._norm(norm), self._vector(bias, self._of.hidden))
        return self._graph.node(
            "SkipLayerNormalization", *inputs, domain=MICROSOFT, epsilon=self._of.eps
        )

    def _activated(self, rows: str, bias: str) -> str:
        node, vector = self._graph.node, self._vector(bias, None)
        match ACTIVATIONS[self._of.activation]:
            case "none":
                return node("BiasGelu", rows, vector, domain=MICROSOFT)
            case "tanh":
                return node("Gelu", node("Add", rows, vector), approximate="tanh")
            case _:
                return node("Relu", node("Add", rows, vector))

    def _product(self, rows: str, name: str, out: int | None) -> str:
        return self._products(rows, self._read(f"{name}.weight", out, None))

    def _norm(self, name: str) -> tuple[str, str]:
        return tuple(self._vector(f"{name}.{part}", self._of.hidden) for part in ("weight", "bias"))  # type: ignore[return-value]

    def _vector(self, name: str, size: int | None) -> str:
        return self._graph.constant(self._read(name, size))

    def _taken(self, padded: str) -> str:
        """[items, longest] -> [tokens]."""
        node = self._graph.node
        return node("Gather", node("Reshape", padded, self._flat), self._rows)

    def _read(self, name: str, *shape: int | None) -> Floats:
        found = self._tensors.read(name)
        wrong = [n for n, want in zip(found.shape, shape, strict=False) if want not in (None, n)]
        if wrong or len(found.shape) != len(shape):
            wanted = ["any" if want is None else want for want in shape]
            raise SourceError(f"tensor {name} is {list(found.shape)}, not {wanted}")
        return found

    def _number(self, value: int) -> str:
        return self._graph.constant(np.array(value, np.int64))

    def _numbers(self, *values: int) -> str:
        return self._graph.constant(np.array(values, np.int64))
