from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from shoal.catalog.card import Card, Memory, Source
from shoal.catalog.infer import card_for, infer
from shoal.catalog.parse import parse_card, to_yaml
from shoal.catalog.resolve import Catalog
from shoal.catalog.tasks import Dense, EncodeTask, Tasks
from shoal.errors import CardError, ShoalError, SourceError, UnknownModel

from .made import BERT, NORMALIZE, POOLING, TRANSFORMER, plain_files, sentence_files, write


def encode_of(card: Card) -> EncodeTask:
    assert card.tasks.encode is not None
    return card.tasks.encode


def dense_of(card: Card) -> Dense:
    dense = encode_of(card).dense
    assert dense is not None
    return dense


def test_a_sentence_transformers_folder(tmp_path: Path) -> None:
    readme = "---\nlicense: apache-2.0\nlanguage:\n- en\n- no\n---\n# A model\n"
    folder = write(tmp_path / "my model!", {**sentence_files(), "README.md": readme})
    assert infer(str(folder)) == Card(
        name="my-model-",
        source=Source(dir=str(folder)),
        family="bert",
        tasks=Tasks(encode=EncodeTask(dense=Dense(32))),
        max_tokens=64,
        license="apache-2.0",
        languages=["en", "no"],
        memory=Memory(weights_mb=0.2),
    )


@pytest.mark.parametrize(
    ("config", "family"),
    [
        ({"architectures": ["ModernBertModel"], "model_type": "modernbert"}, "modernbert"),
        ({"architectures": ["NomicBertModel"], "model_type": "nomic_bert"}, "nomic"),
        ({"architectures": ["NewModel"], "model_type": "new"}, "gte"),
        ({"architectures": ["GteModel"], "model_type": "gte"}, "gte"),
        ({"architectures": ["Gemma3TextModel"], "model_type": "gemma3_text"}, "gemma3"),
        ({"architectures": ["LlamaModel"], "model_type": "llama"}, "llama"),
        ({"architectures": ["MistralModel"], "model_type": "mistral"}, "mistral"),
        ({"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2"}, "qwen2"),
        ({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}, "qwen3"),
        ({"architectures": ["SmolLM3Model"], "model_type": "smollm3"}, "smollm3"),
    ],
)
def test_families(tmp_path: Path, config: dict[str, Any], family: str) -> None:
    files = sentence_files() | {"config.json": {**BERT, **config}}
    card = infer(str(write(tmp_path / "m", files)))
    assert (card.family, card.max_tokens, dense_of(card)) == (family, 64, Dense(32))


def test_the_inferred_card_reads_back(tmp_path: Path) -> None:
    card = infer(str(write(tmp_path / "m", plain_files())))
    assert parse_card(to_yaml(card), "m.yaml") == card


def test_a_link_is_called_by_its_own_name(tmp_path: Path) -> None:
    model = write(tmp_path / "0123abc", sentence_files())
    (tmp_path / "my-model").symlink_to(model)
    card = infer(str(tmp_path / "my-model"))
    assert (card.name, card.source.dir) == ("my-model", str(model))
    assert infer(str(tmp_path / "my-model" / "..") + "/my-model").name == "my-model"
    (model / "inner").mkdir()
    assert infer(str(model / "inner" / "..")).name == "0123abc"


def test_a_plain_folder_gets_mean_pooling_and_a_note(tmp_path: Path) -> None:
    card = infer(str(write(tmp_path / "m", plain_files())))
    assert encode_of(card) == EncodeTask(dense=Dense(32))
    assert card.max_tokens == 128
    assert card.description is not None
    assert "mean pooling and normalizing are assumed" in card.description


@pytest.mark.parametrize(
    ("pooling", "expected"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode_lasttoken": True}, "last"),
        ({"pooling_mode_mean_tokens": True}, "mean"),
        ({"pooling_mode": "lasttoken"}, "last"),
        ({"pooling_mode_max_tokens": True}, "max"),
        ({"pooling_mode": ["cls"]}, "cls"),
        ({"embedding_dimension": 32, "pooling_mode": "mean"}, "mean"),
        ({"include_prompt": True}, "mean"),
    ],
)
def test_poolings(tmp_path: Path, pooling: dict[str, Any], expected: str) -> None:
    card = infer(str(write(tmp_path / "m", sentence_files(pooling))))
    assert dense_of(card).pooling == expected


@pytest.mark.parametrize(
    ("pooling", "message"),
    [
        (
            {"pooling_mode": "weightedmean"},
            "pools by weightedmean; supported is one of mean, cls, lasttoken, max",
        ),
        ({"pooling_mode_mean_sqrt_len_tokens": True}, "pools by mean_sqrt_len_tokens"),
        (
            {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True},
            "pools by cls [+] mean",
        ),
        ({"pooling_mode": ["cls", "mean"]}, "pools by cls [+] mean"),
        ({"word_embedding_dimension": 64}, "pooling expects vectors of 64, the encoder gives 32"),
    ],
)
def test_poolings_that_are_not_computed(
    tmp_path: Path, pooling: dict[str, Any], message: str
) -> None:
    with pytest.raises(CardError, match=message):
        infer(str(write(tmp_path / "m", sentence_files(pooling))))


def test_without_normalize_vectors_stay_as_they_are(tmp_path: Path) -> None:
    files = {**sentence_files(), "modules.json": [TRANSFORMER, POOLING]}
    assert not dense_of(infer(str(write(tmp_path / "m", files)))).normalize


DENSE = {"idx": 2, "name": "2", "path": "2_Dense", "type": "sentence_transformers.models.Dense"}


def projected(**changes: Any) -> dict[str, Any]:
    return {
        **sentence_files(),
        "modules.json": [TRANSFORMER, POOLING, DENSE, NORMALIZE],
        "2_Dense/config.json": {"in_features": 32, "out_features": 24, "bias": False},
        "2_Dense/model.safetensors": b"0",
    } | changes


def test_dense_modules(tmp_path: Path) -> None:
    card = infer(str(write(tmp_path / "m", projected())))
    assert dense_of(card) == Dense(24, "mean", True, ["2_Dense"])
    assert parse_card(to_yaml(card), "m.yaml") == card


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"2_Dense/config.json": None}, "2_Dense/config.json is missing"),
        ({"2_Dense/config.json": {"out_features": "x"}}, "2_Dense/config.json cannot be read"),
        (
            {"2_Dense/config.json": {"out_features": 24, "use_residual": True}},
            "2_Dense has use_residual",
        ),
        (
            {"2_Dense/model.safetensors": None, "2_Dense/pytorch_model.bin": b"0"},
            "2_Dense has no model.safetensors",
        ),
    ],
)
def test_dense_modules_that_are_not_computed(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(CardError, match=message):
        infer(str(write(tmp_path / "m", projected(**changes))))


def _module(name: str) -> dict[str, Any]:
    return {"idx": 2, "name": "2", "path": "2_X", "type": name}


@pytest.mark.parametrize(
    ("modules", "message"),
    [
        (
            [TRANSFORMER, POOLING, _module("sentence_transformers.models.LSTM")],
            r"has Transformer \+ Pooling \+ LSTM",
        ),
        ([TRANSFORMER, DENSE, POOLING], r"has Transformer \+ Dense \+ Pooling"),
        ([TRANSFORMER, POOLING, NORMALIZE, NORMALIZE], "Normalize [+] Normalize"),
        ([TRANSFORMER], "has Transformer; supported"),
        ([], "has no modules"),
        ([_module("custom_st.Transformer"), POOLING], "'custom_st.Transformer' is code of its own"),
        (
            [
                _module("sentence_transformers.sparse_encoder.models.MLMTransformer"),
                _module("sentence_transformers.sparse_encoder.models.SpladePooling"),
            ],
            "has MLMTransformer",
        ),
    ],
)
def test_modules_that_are_not_computed(
    tmp_path: Path, modules: list[dict[str, Any]], message: str
) -> None:
    with pytest.raises(CardError, match=message):
        infer(str(write(tmp_path / "m", {**sentence_files(), "modules.json": modules})))


def test_newer_module_paths(tmp_path: Path) -> None:
    base = "sentence_transformers.sentence_transformer.modules"
    modules = [
        {**TRANSFORMER, "type": "sentence_transformers.base.modules.transformer.Transformer"},
        {**POOLING, "type": f"{base}.pooling.Pooling"},
    ]
    files = {**sentence_files({"pooling_mode": "cls"}), "modules.json": modules}
    assert dense_of(infer(str(write(tmp_path / "m", files)))).pooling == "cls"


def test_an_encoder_in_a_folder_of_its_own(tmp_path: Path) -> None:
    encoder = {f"0_BERT/{name}": content for name, content in plain_files().items()}
    files = {
        **encoder,
        "modules.json": [{**TRANSFORMER, "path": "0_BERT"}, POOLING],
        "1_Pooling/config.json": {"pooling_mode_cls_token": True},
        "0_BERT/sentence_bert_config.json": {"max_seq_length": 32},
        "README.md": "---\nlicense: mit\n---\n",
    }
    card = infer(str(write(tmp_path / "m", files)))
    assert card.source.dir == str(tmp_path / "m/0_BERT")
    assert (card.name, card.max_tokens, card.license) == ("m", 32, "mit")


def test_prompts(tmp_path: Path) -> None:
    prompts = {"query": "query: ", "document": ""}
    model = {"prompts": prompts, "default_prompt_name": "query"}
    files = {**sentence_files(), "config_sentence_transformers.json": model}
    task = encode_of(infer(str(write(tmp_path / "m", files))))
    assert (task.prompts, task.default_prompt) == (prompts, "query")


@pytest.mark.parametrize(
    ("prompts", "form"),
    [
        ({"query": "Instruct: Find passages\nQuery:", "document": ""}, "\nQuery:"),
        ({"a": "Instruct: Find\nQuery: ", "b": "Instruct: Compare.\nQuery: "}, "\nQuery: "),
        ({"a": "Instruct: Find\nQuery: ", "b": "Instruct: Compare.\nQuery:"}, None),
        ({"query": "query: "}, None),
    ],
)
def test_prompts_that_are_instructions(
    tmp_path: Path, prompts: dict[str, str], form: str | None
) -> None:
    files = {**sentence_files(), "config_sentence_transformers.json": {"prompts": prompts}}
    task = encode_of(infer(str(write(tmp_path / "m", files))))
    expected = form and "Instruct: {instruction}" + form
    assert (task.prompts, task.instruction_prompt) == (prompts, expected)


def test_prompts_that_pooling_leaves_out(tmp_path: Path) -> None:
    files = sentence_files({"pooling_mode_mean_tokens": True, "include_prompt": False})
    infer(str(write(tmp_path / "without", files)))
    files["config_sentence_transformers.json"] = {"prompts": {"query": "query: "}}
    with pytest.raises(CardError, match=r"include_prompt: false"):
        infer(str(write(tmp_path / "with", files)))


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"sentence_bert_config.json": {"max_seq_length": 512}}, 128),
        (
            {"sentence_bert_config.json": {}, "tokenizer_config.json": {"model_max_length": 100}},
            100,
        ),
        (
            {"sentence_bert_config.json": {}, "tokenizer_config.json": {"model_max_length": 1e30}},
            128,
        ),
        ({"sentence_bert_config.json": None}, 128),
        (
            {
                "sentence_bert_config.json": None,
                "sentence_roberta_config.json": {"max_seq_length": 48},
            },
            48,
        ),
    ],
)
def test_max_tokens(tmp_path: Path, files: dict[str, Any], expected: int) -> None:
    assert infer(str(write(tmp_path / "m", {**sentence_files(), **files}))).max_tokens == expected


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "xlnet"}, "model_type 'xlnet' has no family here; known are albert"),
        ({"model_type": None, "architectures": ["XModel"]}, "model_type 'XModel' has no family"),
        ({"auto_map": {"AutoModel": "modeling.X"}}, "needs code from its own repository"),
        (
            {"architectures": ["BertForQuestionAnswering"]},
            "trained for another task than encode",
        ),
        ({"hidden_size": None}, "config.json lacks hidden_size"),
        ({"hidden_size": "wide"}, "config.json cannot be read: Expected `int"),
        ({"hidden_size": 0}, "inferred tasks.encode.dense.dim: must be at least 1"),
        ({"max_position_embeddings": None}, "says how many tokens fit"),
    ],
)
def test_configurations_that_are_not_served(
    tmp_path: Path, config: dict[str, Any], message: str
) -> None:
    with pytest.raises(CardError, match=message):
        infer(str(write(tmp_path / "m", plain_files(**config))))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"config.json": None}, "has no config.json, so it is not a Hugging Face model"),
        ({"config.json": None, "a.yaml": "name: a"}, "pass it with --catalog"),
        ({"config.json": "{"}, "config.json cannot be read"),
        ({"modules.json": b"\xff"}, "modules.json cannot be read"),
        (
            {"tokenizer.json": None, "spm.model": "a"},
            "spm.model, which is not enough.*AutoTokenizer",
        ),
        ({"tokenizer.json": None, "merges.txt": "a"}, "has no tokenizer.json; make it"),
        ({"model.safetensors": None}, "has no .*safetensors"),
        ({"model.safetensors": None, "pytorch_model.bin": b"x"}, "pytorch_model.bin, a pickle"),
        ({"1_Pooling/config.json": None}, "1_Pooling/config.json is missing"),
        (
            {"config_sentence_transformers.json": {"model_type": "MultiVectorEncoder"}},
            "is a MultiVectorEncoder, not served without a card",
        ),
        ({"sentence_bert_config.json": {"transformer_task": "fill-mask"}}, "asks for 'fill-mask'"),
    ],
)
def test_folders_that_are_not_served(tmp_path: Path, files: dict[str, Any], message: str) -> None:
    with pytest.raises((CardError, SourceError), match=message):
        infer(str(write(tmp_path / "m", {**sentence_files(), **files})))


OWN = "somebody/base-model--modeling"


def test_a_family_stands_for_the_code_that_its_models_bring_along(tmp_path: Path) -> None:
    config = {
        "architectures": ["NomicBertModel"],
        "model_type": "nomic_bert",
        "n_embd": 32,
        "n_positions": 48,
        "auto_map": {"AutoConfig": f"{OWN}.NomicBertConfig", "AutoModel": f"{OWN}.NomicBertModel"},
    }
    files = sentence_files() | {"config.json": config}
    card = infer(str(write(tmp_path / "m", files)))
    assert (card.family, card.max_tokens, dense_of(card)) == ("nomic", 48, Dense(32))


@pytest.mark.parametrize(
    ("model_type", "auto_map"),
    [
        ("nomic_bert", {"AutoModel": f"{OWN}.OtherModel"}),
        ("nomic_bert", {"AutoConfig": f"{OWN}.NomicBertConfig"}),
        ("qwen2", {"AutoModel": f"{OWN}.Qwen2Model"}),
        ("own", {"AutoModel": f"{OWN}.NomicBertModel"}),
    ],
)
def test_other_code_is_refused(tmp_path: Path, model_type: str, auto_map: dict[str, str]) -> None:
    config = {**BERT, "architectures": None, "model_type": model_type, "auto_map": auto_map}
    files = sentence_files() | {"config.json": config}
    with pytest.raises(CardError, match="needs code from its own repository"):
        infer(str(write(tmp_path / "m", files)))


def _template(*pieces: str) -> dict[str, Any]:
    single = [{"SpecialToken": {"id": p, "type_id": 0}} for p in pieces]
    return {"type": "TemplateProcessing", "single": single}


@pytest.mark.parametrize(
    ("said", "processor", "fine"),
    [
        ({"add_eos_token": True, "eos_token": "</s>"}, _template("<s>", "</s>"), True),
        (
            {"add_eos_token": True, "eos_token": {"content": "</s>"}},
            {"type": "Sequence", "processors": [{"type": "ByteLevel"}, _template("</s>")]},
            True,
        ),
        (
            {"add_eos_token": True, "eos_token": "</s>"},
            {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0]},
            True,
        ),
        ({"add_eos_token": True, "eos_token": "</s>"}, _template("<s>"), False),
        ({"add_eos_token": True, "eos_token": "</s>"}, None, False),
        ({"add_eos_token": False, "eos_token": "</s>"}, None, True),
        ({"eos_token": "</s>"}, None, True),
    ],
)
def test_a_token_at_the_end_must_be_the_tokenizers_work(
    tmp_path: Path, said: dict[str, Any], processor: dict[str, Any] | None, fine: bool
) -> None:
    files = {
        **sentence_files(),
        "tokenizer_config.json": said,
        "tokenizer.json": {"normalizer": None, "post_processor": processor},
    }
    folder = str(write(tmp_path / "m", files))
    if fine:
        infer(folder)
    else:
        with pytest.raises(CardError, match=r"tokenizer.json does not put </s> after a text"):
            infer(folder)


@pytest.mark.parametrize(
    "vocabulary", [{"vocab.txt": "a"}, {"vocab.json": "{}", "merges.txt": "a"}], ids=lambda v: [*v]
)
def test_a_vocabulary_is_enough(tmp_path: Path, vocabulary: dict[str, Any]) -> None:
    files = {**sentence_files(), "tokenizer.json": None, **vocabulary}
    assert infer(str(write(tmp_path / "m", files))).name == "m"


@pytest.mark.parametrize(
    ("normalizer", "fine"),
    [
        ({"type": "Lowercase"}, True),
        ({"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "Lowercase"}]}, True),
        ({"type": "BertNormalizer", "lowercase": False}, False),
        (None, False),
    ],
)
def test_lower_case_must_be_the_tokenizers_work(
    tmp_path: Path, normalizer: dict[str, Any] | None, fine: bool
) -> None:
    files = {
        **sentence_files(),
        "sentence_bert_config.json": {"do_lower_case": True},
        "tokenizer.json": {"normalizer": normalizer},
    }
    folder = str(write(tmp_path / "m", files))
    if fine:
        infer(folder)
    else:
        with pytest.raises(CardError, match=r"tokenizer.json does not lower text"):
            infer(folder)


@pytest.mark.parametrize(
    ("readme", "license_"),
    [
        ("---\nlicense: mit\n---", "mit"),
        ("---\nlicense: other\nlicense_name: gemma\n---\ntext", "gemma"),
        ("---\nlicense: other\n---\ntext", "other"),
        ("---\nlicense: [a, b]\n---\n", None),
        ("---\nlicense: [a\n---\n", None),
        ("---\n- a\n---\n", None),
        ("# Title\n---\nlicense: mit\n---\n", None),
        ("---\nlicense: mit\n", None),
        (b"---\nlicense: \xff\n---\n", None),
    ],
)
def test_licences(tmp_path: Path, readme: str | bytes, license_: str | None) -> None:
    folder = write(tmp_path / "m", {**plain_files(), "README.md": readme})
    assert infer(str(folder)).license == license_


def test_what_a_name_on_the_command_line_means(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def resolve(spec: str) -> Card:
        return card_for(spec, Catalog.load([]), cache_dir=str(tmp_path / "cache"), offline=True)

    write(tmp_path / "org/mine", plain_files())
    monkeypatch.chdir(tmp_path)
    assert resolve("minilm").name == "all-MiniLM-L6-v2"
    assert resolve("sentence-transformers/all-MiniLM-L6-v2").name == "all-MiniLM-L6-v2"
    assert resolve("org/mine").source.dir == str(tmp_path / "org/mine")
    assert resolve("./org/mine").name == "mine"
    with pytest.raises(CardError, match=r"no such folder"):
        resolve("./nothing")
    with pytest.raises(UnknownModel, match=r"did you mean 'minilm'.*or org/name on the hub"):
        resolve("minlm")


def test_every_error_is_one_that_shoal_raises_on_purpose(tmp_path: Path) -> None:
    """Files swapped with other JSON: a card or a `ShoalError`, nothing else."""
    for name in sentence_files():
        for i, content in enumerate(["[]", "{}", "null", "3", '"x"', "[[]]", '{"a": []}', ""]):
            folder = write(tmp_path / f"{i}{name}", {**sentence_files(), name: content})
            try:
                infer(str(folder))
            except ShoalError:
                continue
