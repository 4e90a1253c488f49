"""What is inferred for models that give terms, scores or labels, and what stays open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.catalog.infer import infer
from shoal.catalog.parse import parse_card, to_yaml
from shoal.catalog.sources.formats import check_folder
from shoal.catalog.tasks import (
    EncodeTask,
    ExtractTask,
    GenerateTask,
    Multivector,
    ScoreTask,
    Sparse,
    Tasks,
)
from shoal.errors import CardError, SourceError

from .made import TRANSFORMER, plain_files, write

SEQUENCE, TOKENS = "BertForSequenceClassification", "BertForTokenClassification"
ONE = {"0": "LABEL_0"}
SPLADE = {
    "idx": 1,
    "name": "1",
    "path": "1_SpladePooling",
    "type": "sentence_transformers.sparse_encoder.modules.splade_pooling.SpladePooling",
}


def classifier(architecture: str = SEQUENCE, **config: Any) -> dict[str, Any]:
    return plain_files(architectures=[architecture], **config)


def cross_encoder(**said: Any) -> dict[str, Any]:
    return classifier(id2label=ONE) | {
        "modules.json": [TRANSFORMER],
        "config_sentence_transformers.json": {"model_type": "CrossEncoder"} | said,
        "sentence_bert_config.json": {"transformer_task": "sequence-classification"},
    }


def sparse(**pooling: Any) -> dict[str, Any]:
    said = {"model_type": "SparseEncoder", "prompts": {"query": "q: "}}
    return classifier("BertForMaskedLM") | {
        "modules.json": [TRANSFORMER, SPLADE],
        "config_sentence_transformers.json": said,
        "sentence_bert_config.json": {"transformer_task": "fill-mask", "max_seq_length": 48},
        "1_SpladePooling/config.json": {"pooling_strategy": "max"} | pooling,
    }


def generator(template: Any = "{{ messages }}") -> dict[str, Any]:
    files = plain_files(architectures=["Qwen3ForCausalLM"], model_type="qwen3")
    return files | {"tokenizer_config.json": {"chat_template": template}}


IDENTITY = "torch.nn.modules.linear.Identity"


@pytest.mark.parametrize(
    ("files", "tasks"),
    [
        (cross_encoder(), Tasks(score=ScoreTask())),
        (cross_encoder(activation_fn=IDENTITY), Tasks(score=ScoreTask(activation="identity"))),
        (
            classifier(id2label=ONE, sentence_transformers={"activation_fn": IDENTITY}),
            Tasks(score=ScoreTask(activation="identity")),
        ),
        (
            classifier(id2label=ONE, sbert_ce_default_activation_function=IDENTITY),
            Tasks(score=ScoreTask(activation="identity")),
        ),
        (
            classifier(id2label={"0": "glad", "1": "sad"}),
            Tasks(extract=ExtractTask("sequence-labels")),
        ),
        (
            classifier(id2label={"0": "Not_Toxic", "1": "toxic", "2": "Neutral"}),
            Tasks(extract=ExtractTask("sequence-labels", harmless=["Not_Toxic", "Neutral"])),
        ),
        (
            classifier(id2label={"0": "ENTAILMENT", "1": "other"}),
            Tasks(extract=ExtractTask("nli")),
        ),
        (
            classifier(TOKENS, id2label={"0": "O", "1": "B-PER"}),
            Tasks(extract=ExtractTask("token-labels")),
        ),
        (sparse(), Tasks(encode=EncodeTask(sparse=Sparse(), prompts={"query": "q: "}))),
        (
            sparse(activation_function="log1p_relu"),
            Tasks(
                encode=EncodeTask(sparse=Sparse(activation="log1p_relu"), prompts={"query": "q: "})
            ),
        ),
    ],
)
def test_tasks(tmp_path: Path, files: dict[str, Any], tasks: Tasks) -> None:
    card = infer(str(write(tmp_path / "m", files)))
    assert (card.family, card.tasks) == ("bert", tasks)
    assert card.max_tokens == (48 if tasks.encode else 128)
    assert card.description is None
    assert parse_card(to_yaml(card), "m.yaml") == card


def gliner(**config: Any) -> dict[str, Any]:
    files = plain_files()
    encoder = files.pop("config.json") | {"architectures": None}
    return files | {"gliner_config.json": {"encoder_config": encoder} | config}


@pytest.mark.parametrize(
    "files",
    [
        generator(),
        generator([{"name": "default", "template": "{{ messages }}"}]),
        generator(None) | {"chat_template.jinja": "{{ messages }}"},
    ],
)
def test_models_that_write(tmp_path: Path, files: dict[str, Any]) -> None:
    card = infer(str(write(tmp_path / "m", files)))
    tasks = Tasks(generate=GenerateTask(max_new_tokens=1024))
    assert (card.family, card.tasks, card.max_tokens) == ("qwen3", tasks, 128)
    assert parse_card(to_yaml(card), "m.yaml") == card


def test_one_that_writes_apart_from_what_it_reads(tmp_path: Path) -> None:
    """Flan's files: no chat template, and no other number of tokens than the tokenizer's."""
    config = {"architectures": ["T5ForConditionalGeneration"], "model_type": "t5"}
    files = plain_files(**config, n_positions=512)
    files["config.json"].pop("max_position_embeddings", None)
    card = infer(str(write(tmp_path / "m", files)))
    assert (card.family, card.tasks) == ("t5", Tasks(generate=GenerateTask(max_new_tokens=1024)))
    assert card.max_tokens == 512
    assert parse_card(to_yaml(card), "m.yaml") == card


def test_one_that_writes_and_has_no_template(tmp_path: Path) -> None:
    with pytest.raises(
        CardError, match=r"Qwen3ForCausalLM without a chat template.*generate: \{\}"
    ):
        infer(str(write(tmp_path / "m", generator(None))))


def test_a_gliner_is_its_encoders_family(tmp_path: Path) -> None:
    card = infer(str(write(tmp_path / "m", gliner())))
    assert (card.family, card.tasks) == ("bert", Tasks(extract=ExtractTask("spans")))
    assert card.max_tokens == 128
    check_folder(card, tmp_path / "m")


@pytest.mark.parametrize(
    ("files", "error", "message"),
    [
        (gliner(encoder_config=None), CardError, "no encoder_config; save it anew with gliner"),
        (gliner(span_mode="token_level"), CardError, "gliner_config.json cannot be.*span_mode"),
        (gliner(encoder_config={"model_type": "new"}) | {}, CardError, "how many tokens fit"),
        (gliner(encoder_config={"model_type": "x"}), CardError, "model_type 'x' has no family"),
        (gliner(encoder_config={"model_type": 3}), CardError, "encoder_config: .*model_type"),
        (
            gliner() | {"model.safetensors": None, "pytorch_model.bin": b""},
            SourceError,
            "a pickle, which may run any code and is never loaded; save it anew with gliner",
        ),
        (gliner() | {"tokenizer.json": None}, SourceError, "no tokenizer.json; save it anew"),
    ],
)
def test_what_is_refused_of_a_gliner(
    tmp_path: Path, files: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        infer(str(write(tmp_path / "m", files)))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (classifier(id2label=ONE), "gives one number and does not say of what; write a card with"),
        (classifier(), "config.json names no labels; put them under its id2label"),
        (classifier(TOKENS, id2label={"0": "LABEL_0", "1": "LABEL_1"}), "names no labels"),
        (cross_encoder() | {"config.json": classifier()["config.json"]}, "of 2 labels"),
        (cross_encoder(activation_fn="own.Tanh"), "its activation is own.Tanh; computed are"),
        (cross_encoder() | {"modules.json": [TRANSFORMER, SPLADE]}, "supported is Transformer$"),
        (sparse() | {"modules.json": [TRANSFORMER]}, r"supported is Transformer \+ SpladePooling"),
        (sparse(pooling_strategy="sum"), "pools by sum; supported is max"),
        (sparse(activation_function="gelu"), "activation_function gelu; supported are relu"),
        (sparse() | {"1_SpladePooling/config.json": None}, "so the pooling is unknown"),
        (classifier("BertForMaskedLM"), "BertForMaskedLM and does not say what its vectors are"),
        (sparse() | plain_files(), "names BertModel, not a class that is ForMaskedLM"),
    ],
)
def test_what_is_refused(tmp_path: Path, files: dict[str, Any], message: str) -> None:
    with pytest.raises(CardError, match=message):
        infer(str(write(tmp_path / "m", files)))


@pytest.mark.parametrize(
    ("kind", "said", "prefix"),
    [
        ("ColPali", None, "Question: "),
        ("ColPali", {"query_prefix": "Frage: "}, "Frage: "),
        ("ColModernVBert", {"image_seq_len": 64, "query_prefix": ""}, ""),
    ],
)
def test_models_of_pages(
    tmp_path: Path, kind: str, said: dict[str, Any] | None, prefix: str
) -> None:
    config = {
        "model_type": kind.lower(),
        "architectures": [f"{kind}ForRetrieval"],
        "embedding_dim": 96,
        "vlm_config": {"text_config": {"max_position_embeddings": 4096}},
    }
    files = plain_files() | {"config.json": config, "processor_config.json": said}
    card = infer(str(write(tmp_path / "model", files)))
    assert card.family == kind.lower()
    assert card.inputs == ["text", "image"]
    assert card.max_tokens == 4096
    vectors = Multivector(96, projections=["embedding_proj_layer"])
    encode = EncodeTask(multivector=vectors, prompts={"query": prefix}, default_prompt="query")
    assert card.tasks == Tasks(encode, score=ScoreTask("maxsim"))
    assert parse_card(to_yaml(card), "card") == card


def test_the_positions_of_a_model_of_pages_that_says_none(tmp_path: Path) -> None:
    config = {"model_type": "colpali", "architectures": ["ColPaliForRetrieval"]}
    files = plain_files() | {"config.json": config, "tokenizer_config.json": None}
    assert infer(str(write(tmp_path / "model", files))).max_tokens == 8192
