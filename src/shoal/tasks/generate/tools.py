"""Tools: in which form a model calls them, how it is told of them, how it is made to call one. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Literal, assert_never

import msgspec

from shoal.errors import InvalidRequest
from shoal.spelling import nearest
from shoal.tasks.generate.answer import Answer, Plain
from shoal.tasks.generate.bare import BareCalls
from shoal.tasks.generate.conversation import Message, text_in
from shoal.tasks.generate.tagged import CLOSE, OPEN, TaggedCalls

Form = Literal["hermes", "json"]
Tool = dict[str, Any]

#: What models that call in tags were trained with: https://github.com/NousResearch/Hermes-Function-Calling
_SAID = """# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{tools}
</tools>

For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:
<tool_call>
{{"name": <function-name>, "arguments": <args-json-object>}}
</tool_call>"""


#: The call that templates show their model, in a text of Jinja's or outside; others have tags like
#: Hermes' around a form of their own (GLM, Qwen3-Coder).
_SHOWN = re.compile(r'"name\\?":[^\n]{0,80}?"(arguments|parameters)\\?":')


def form_in(template: str) -> Form | None:
    """The form that a chat template tells its model to call in; None: it says none that is known."""
    shown = _SHOWN.search(template) if has_place(template) else None
    if shown is None:
        return None
    if OPEN in template:
        return "hermes" if shown[1] == "arguments" else None
    return "json" if shown[1] == "parameters" else None


def has_place(template: str) -> bool:
    """Whether a chat template tells of the tools that it is given."""
    return re.search(r"\btools\b", template) is not None


def names_of(tools: Iterable[Tool]) -> list[str]:
    """Those that may be called."""
    return [str(tool["function"]["name"]) for tool in tools]


def answer_of(form: Form | None, tools: list[Tool]) -> Callable[[], Answer]:
    """How calls of these tools are told apart from text."""
    if not tools or form is None:
        return Plain
    if form == "hermes":
        return TaggedCalls
    names = frozenset(names_of(tools))
    return lambda: BareCalls(names)


def chosen(tools: list[Tool], choice: str) -> list[Tool]:
    """Those of which one must be called, none where the model may choose.

    Raises `InvalidRequest` for the name of none.
    """
    if choice in ("auto", "none"):
        return []
    if choice == "required":
        return tools
    found = [tool for tool in tools if tool["function"]["name"] == choice]
    if not found:
        hint = nearest(choice, names_of(tools))
        raise InvalidRequest(f"tool_choice names '{choice}', which is none of the tools{hint}")
    return found


def forced(form: Form, tools: list[Tool], *, several: bool) -> tuple[str, str]:
    """The grammar of a text that calls one of these tools, or `several` one after the other."""
    match form:
        case "hermes":
            body = msgspec.json.encode(_schema(tools, "arguments") | {"x-guidance": _COMPACT})
            more = r' ("\n" call)*' if several else ""
            return "lark", (
                f"start: call{more}\n"
                rf'call: "{OPEN}\n" body "\n{CLOSE}"'
                f"\nbody: %json {body.decode()}\n"
            )
        case "json":
            return "json_schema", msgspec.json.encode(_schema(tools, "parameters")).decode()
        case _:
            assert_never(form)


#: JSON in one line, of llguidance: where blanks are free a small model may write nothing else.
_COMPACT = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


def _schema(tools: list[Tool], key: str) -> dict[str, Any]:
    """JSON schema of a call of one of these tools."""
    calls, parameters = [], {}
    for number, tool in enumerate(tools):
        function = tool["function"]
        place = f"tool{number}"
        parameters[place] = _moved(function.get("parameters") or {"type": "object"}, place)
        properties = {
            "name": {"const": function["name"]},
            key: {"$ref": f"#/$defs/{place}"},
        }
        calls.append(
            {
                "type": "object",
                "properties": properties,
                "required": ["name", key],
                "additionalProperties": False,
            }
        )
    return {"anyOf": calls, "$defs": parameters}


def _moved(schema: Any, place: str) -> Any:
    """A schema whose references within itself hold where it stands inside another."""
    if isinstance(schema, list):
        return [_moved(inner, place) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    moved = {key: _moved(inner, place) for key, inner in schema.items()}
    if isinstance(reference := schema.get("$ref"), str) and reference.startswith("#"):
        moved["$ref"] = f"#/$defs/{place}{reference[1:]}"
    return moved


def written_out(messages: list[Message], tools: list[Tool]) -> list[Message]:
    """Messages for a template that knows no tools: told of in the system's, calls and results as text."""
    told = [_told(message) for message in messages]
    if not tools:
        return told
    said = _SAID.format(tools="\n".join(_json(tool) for tool in tools))
    first = told[0]
    if first["role"] != "system":
        return [{"role": "system", "content": said}, *told]
    return [{**first, "content": f"{_text(first)}\n\n{said}"}, *told[1:]]


def _told(message: Message) -> Message:
    if message["role"] == "tool":
        return {
            "role": "user",
            "content": f"<tool_response>\n{_text(message)}\n</tool_response>",
        }
    if not (calls := message.get("tool_calls")):
        return message
    written = [
        f"{OPEN}\n{_json({key: call['function'][key] for key in ('name', 'arguments')})}\n{CLOSE}"
        for call in calls
    ]
    text = "\n".join([*filter(None, [_text(message)]), *written])
    return {"role": message["role"], "content": text}


def _text(message: Message) -> str:
    return text_in(message.get("content") or "")


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
