import json

import pytest
from tokenizers import Tokenizer, decoders, models

from shoal.tasks.generate.pieces import bytes_of

LLAMA = decoders.Sequence(
    [
        decoders.Replace("▁", " "),
        decoders.ByteFallback(),
        decoders.Fuse(),
        decoders.Strip(content=" ", left=1),
    ]
)


@pytest.mark.parametrize(
    ("decoder", "token", "data"),
    [
        (decoders.ByteLevel(), "Ġcat", b" cat"),
        (decoders.ByteLevel(), "Ã¼", "ü".encode()),
        (decoders.ByteLevel(), "Ã", b"\xc3"),
        (decoders.ByteLevel(), "<|a b|>", b"<|a b|>"),
        (LLAMA, "▁cat", b" cat"),
        (LLAMA, "<0xC3>", b"\xc3"),
        (LLAMA, "<0xG3>", b"<0xG3>"),
        (decoders.Metaspace(), "▁cat", b" cat"),
        (decoders.Metaspace(), "<0xC3>", b"<0xC3>"),
    ],
)
def test_a_token_is_the_bytes_that_its_decoder_makes(
    decoder: decoders.Decoder, token: str, data: bytes
) -> None:
    read = bytes_of(json.loads(decoder.__getstate__()))
    assert read is not None
    assert read(token) == data


def test_every_byte_has_a_character() -> None:
    read = bytes_of({"type": "ByteLevel"})
    assert read is not None
    tokenizer = Tokenizer(models.BPE({chr(i): i for i in range(0x21, 0x180)}, []))
    tokenizer.decoder = decoders.ByteLevel()
    for token in range(0x21, 0x180):
        try:
            text = read(chr(token)).decode()
        except UnicodeDecodeError:
            text = "\ufffd"
        assert tokenizer.decode([token]) == text


@pytest.mark.parametrize("decoder", [None, decoders.WordPiece(), decoders.CTC()])
def test_others_write_no_text(decoder: decoders.Decoder | None) -> None:
    assert bytes_of(None if decoder is None else json.loads(decoder.__getstate__())) is None
