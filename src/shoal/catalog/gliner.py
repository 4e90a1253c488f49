"""GLiNER (Zaratiana et al., 2023): what its configuration says of an encoder and what lies around it.

Its models are folders with ``gliner_config.json`` in place of ``config.json``; the encoder's own
configuration is a part of it. Reference: `gliner` 0.2.29, its `UniEncoderSpanModel`.
"""

from __future__ import annotations

from typing import Literal

import msgspec

FILE = "gliner_config.json"
#: How a model becomes one that has all of its files, as safetensors.
SAVE_ANEW = (
    "save it anew with gliner: `GLiNER.from_pretrained(FOLDER).save_pretrained(FOLDER, "
    "safe_serialization=True)`"
)


class GlinerConfig(msgspec.Struct, frozen=True):
    """The keys that change what is computed; those of other architectures have one value here.

    Attributes:
        hidden_size: of words and labels, to which the encoder's rows are projected if need be.
        max_width: words of the longest entity. `max_len`: words of a text.
        subtoken_pooling: which of a word's tokens stands for it.
        embed_ent_token: whether the token before a label stands for it, else the label's first.
        class_token_index: the id of `ent_token`; -1: the tokenizer says.
    """

    encoder_config: msgspec.Raw = msgspec.Raw(b"null")
    hidden_size: int = 512
    max_width: int = 12
    max_len: int = 384
    span_mode: Literal["markerV0", "marker"] = "markerV0"
    subtoken_pooling: Literal["first", "last"] = "first"
    num_rnn_layers: int = 1
    embed_ent_token: bool = True
    class_token_index: int = -1
    ent_token: str = "<<ENT>>"  # noqa: S105
    sep_token: str = "<<SEP>>"  # noqa: S105
    words_splitter_type: Literal["whitespace"] = "whitespace"
    fuse_layers: Literal[False] = False
    post_fusion_schema: Literal["", None] = ""
    represent_spans: Literal[False] = False
    precomputed_prompts_mode: Literal[False, None] = None
    span_encoder_config: None = None
    labels_encoder: None = None
    labels_decoder: None = None
    relations_layer: None = None

    @property
    def has_encoder(self) -> bool:
        """Whether it says what its encoder is, not only what it was called."""
        return bytes(self.encoder_config) != b"null"
