"""Models as the reference libraries hold them: sentence-transformers and transformers, on the CPU.

Decides which class is the reference for which head. What a model needs beside its files is told, not
read from a card of the catalog, so that an error there shows. The libraries are imported when they
are needed: no server has them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

Dtype = Literal["float32", "bfloat16"]

#: All of them are BERTs with as many places.
_MOST_TOKENS = 512


def dense(folder: Path, pooling: str, dtype: Dtype = "float32") -> Any:
    """A `SentenceTransformer`; `pooling` counts where the folder does not tell it itself."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling

    if (folder / "modules.json").is_file():
        return SentenceTransformer(str(folder), device="cpu", model_kwargs={"dtype": dtype})
    reads = _transformer(folder, dtype)
    pools = Pooling(reads.get_embedding_dimension(), pooling_mode=pooling)
    return SentenceTransformer(modules=[reads, pools, Normalize()], device="cpu")


def sparse(folder: Path, dtype: Dtype = "float32") -> Any:
    """A `SparseEncoder` that pools as SPLADE does."""
    from sentence_transformers import SparseEncoder
    from sentence_transformers.sparse_encoder.modules import SpladePooling

    reads = _transformer(folder, dtype, transformer_task="fill-mask")
    return SparseEncoder(modules=[reads, SpladePooling()], device="cpu")


def multivector(folder: Path, dtype: Dtype = "float32") -> Any:
    """A `MultiVectorEncoder` without a projection: a unit vector a token, special ones included."""
    from sentence_transformers import MultiVectorEncoder
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
    from sentence_transformers.sentence_transformer.modules import Normalize

    modules = [
        _transformer(folder, dtype),
        MultiVectorMask(),
        Normalize(module_input_name="token_embeddings"),
    ]
    return MultiVectorEncoder(modules=modules, device="cpu")


def cross_encoder(folder: Path, dtype: Dtype = "float32") -> Any:
    """A `CrossEncoder`."""
    from sentence_transformers import CrossEncoder

    return CrossEncoder(
        str(folder), device="cpu", max_length=_MOST_TOKENS, model_kwargs={"dtype": dtype}
    )


def entities(folder: Path, aggregation: str, dtype: Dtype = "float32") -> Any:
    """A pipeline of transformers that finds entities."""
    from transformers import pipeline

    options: dict[str, Any] = {"aggregation_strategy": aggregation, "device": -1, "dtype": dtype}
    return pipeline("token-classification", str(folder), **options)


def _transformer(folder: Path, dtype: Dtype, **options: Any) -> Any:
    from sentence_transformers.sentence_transformer.modules import Transformer

    kwargs = {"dtype": dtype}
    return Transformer(str(folder), max_seq_length=_MOST_TOKENS, model_kwargs=kwargs, **options)
