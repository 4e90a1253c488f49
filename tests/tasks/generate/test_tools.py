import json
from typing import Any

import pytest

from shoal.errors import InvalidRequest
from shoal.tasks.generate.answer import Plain
from shoal.tasks.generate.bare import BareCalls
from shoal.tasks.generate.tagged import TaggedCalls
from shoal.tasks.generate.tools import answer_of, chosen, forced, form_in, has_place, written_out


def tool(name: str, **parameters: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


WEATHER = tool("weather", type="object", properties={"city": {"type": "string"}}, required=["city"])
TREE = tool(
    "tree",
    type="object",
    properties={"root": {"$ref": "#/$defs/Node"}},
    **{"$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}}},
)
TOOLS = [WEATHER, TREE]


@pytest.mark.parametrize(
    ("template", "form"),
    [
        (
            r"""{% if tools %}{{ '<tool_call>\n{\"name\": <name>, \"arguments\": <json>}' }}{% endif %}""",
            "hermes",
        ),
        ('{% for t in tools %}{{ t }}{% endfor %}{"name": name, "parameters": of it}', "json"),
        ("{% if tools %}<tool_call>{name}<arg_key>{key}</arg_key></tool_call>{% endif %}", None),
        ("{{ tools }}", None),
        ('<tool_call>{"name": name, "arguments": of it}', None),
    ],
)
def test_a_template_says_the_form(template: str, form: str | None) -> None:
    assert form_in(template) == form


def test_a_template_has_a_place_for_tools_or_none() -> None:
    assert has_place("{% for t in tools %}")
    assert not has_place("{{ toolsmith }}")


def test_how_calls_are_read() -> None:
    assert isinstance(answer_of("hermes", TOOLS)(), TaggedCalls)
    assert isinstance(answer_of("json", TOOLS)(), BareCalls)
    assert isinstance(answer_of("hermes", [])(), Plain)


def test_which_must_be_called() -> None:
    assert chosen(TOOLS, "auto") == chosen(TOOLS, "none") == []
    assert chosen(TOOLS, "required") == TOOLS
    assert chosen(TOOLS, "weather") == [WEATHER]
    with pytest.raises(InvalidRequest, match=r"names 'wether', .* \(did you mean 'weather'\?\)"):
        chosen(TOOLS, "wether")


def schema_in(grammar: tuple[str, str]) -> dict[str, Any]:
    kind, text = grammar
    found: dict[str, Any] = json.loads(text.partition("%json ")[2] if kind == "lark" else text)
    return found


def test_a_grammar_leaves_nothing_but_calls() -> None:
    kind, text = forced("hermes", [WEATHER], several=False)
    assert kind == "lark"
    assert text.splitlines()[:2] == [
        "start: call",
        r'call: "<tool_call>\n" body "\n</tool_call>"',
    ]
    assert forced("hermes", TOOLS, several=True)[1].startswith(r'start: call ("\n" call)*')
    kind, _ = forced("json", TOOLS, several=True)
    assert kind == "json_schema"


def test_references_hold_where_a_schema_is_moved_to() -> None:
    schema = schema_in(forced("json", TOOLS, several=False))
    assert schema["anyOf"][1]["properties"]["parameters"] == {"$ref": "#/$defs/tool1"}
    moved = schema["$defs"]["tool1"]
    reference = moved["properties"]["root"]["$ref"]
    found: Any = schema
    for key in reference.removeprefix("#/").split("/"):
        found = found[key]
    assert found["properties"]["next"]["$ref"] == reference


@pytest.mark.parametrize("form", ["hermes", "json"])
def test_the_library_keeps_the_grammar(form: Any) -> None:
    """What it takes, and that a text of another tool or a wrong type is none of it."""
    llguidance = pytest.importorskip("llguidance")
    kind, text = forced(form, TOOLS, several=True)
    of = llguidance.LLMatcher
    source = (
        of.grammar_from_lark(text)
        if kind == "lark"
        else of.grammar_from_json_schema(
            text,
            overrides={"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "},
        )
    )
    key = "arguments" if form == "hermes" else "parameters"

    def taken(name: str, arguments: Any) -> bool:
        written = json.dumps({"name": name, key: arguments})
        call = f"<tool_call>\n{written}\n</tool_call>" if form == "hermes" else written
        matcher = of(llguidance.LLTokenizer("byte"), source)
        assert not matcher.is_error(), matcher.get_error()
        ids = list(call.encode())
        return bool(matcher.try_consume_tokens(ids) == len(ids) and matcher.is_accepting())

    assert taken("weather", {"city": "Ulm"})
    assert taken("tree", {"root": {"next": {"next": {}}}})
    assert not taken("weather", {"city": 3})
    assert not taken("weather", {})
    assert not taken("other", {})


def test_a_template_that_knows_no_tools_is_told_of_them_as_text() -> None:
    call = {"function": {"name": "weather", "arguments": {"city": "Köln"}}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "How is it?"},
        {"role": "assistant", "content": "Well.", "tool_calls": [call]},
        {"role": "tool", "content": "12 °C"},
    ]
    system, user, assistant, result = written_out(messages, [WEATHER])
    assert system["role"] == "system" and '"name":"weather"' in system["content"]
    assert user == messages[0]
    said = '<tool_call>\n{"name":"weather","arguments":{"city":"Köln"}}\n</tool_call>'
    assert assistant == {"role": "assistant", "content": f"Well.\n{said}"}
    assert result == {"role": "user", "content": "<tool_response>\n12 °C\n</tool_response>"}
    own: dict[str, Any] = {"role": "system", "content": [{"type": "text", "text": "Be brief."}]}
    (both, *_) = written_out([own, *messages], [WEATHER])
    assert both["content"].startswith("Be brief.\n\n# Tools")
    assert written_out(messages[:1], []) == messages[:1]
