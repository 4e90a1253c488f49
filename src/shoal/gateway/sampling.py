"""What a caller may ask of a text that is generated: within which bounds, and what goes together.

Decides which options are wrong and says what would be right; all routes that generate end here. It must
not know bodies or the queue.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Annotated, Any, NoReturn

import msgspec
from msgspec import Meta

from shoal.errors import InvalidRequest, PayloadTooLarge
from shoal.spelling import nearest
from shoal.values import GRAMMAR_PARAMS, GenerateParams, GrammarKind

#: Options travel inside every unit. Grammars of 64 KiB are the largest that compile in a second or two.
TEXT_MOST_BYTES = 64 * 1024
#: OpenAI takes 4; each is looked for after every token.
STOPS_MOST, STOP_MOST_CHARACTERS = 16, 256
#: As OpenAI: each of them travels beside every token.
LOGPROBS_MOST = 20
BIASES_MOST = 1024
#: Ids of tokens are int32 wherever they travel in arrays; those of a model are looked at by its worker.
IDS_MOST = 2**31
#: Option -> the least and the most it may be; OpenAI's ranges where it has the option.
RANGES: dict[str, tuple[float, float]] = {
    "temperature": (0, 2),
    "top_p": (0, 1),
    "min_p": (0, 1),
    "presence_penalty": (-2, 2),
    "frequency_penalty": (-2, 2),
    "repetition_penalty": (0.01, 10),
    "top_k": (0, 2**31 - 1),
    "max_tokens": (1, 2**31 - 1),
    "logprobs": (0, LOGPROBS_MOST),
    "seed": (-(2**63), 2**63 - 1),
}
BIAS_MOST = 100.0
#: Options of which no two go together, and what of a grammar they are.
GRAMMARS = {param: kind for kind, param in GRAMMAR_PARAMS.items()}
#: OpenAI's top_p may be 0, which no tokens reach: the likeliest alone is meant.
LEAST_TOP_P = 1e-6


class GenerateOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The `params` of a native generate request."""

    max_tokens: Annotated[
        int | None, Meta(description="Most that are generated; unset: what the model has room for.")
    ] = None
    temperature: Annotated[
        float | None, Meta(description="0 takes the likeliest token; unset: as the card says.")
    ] = None
    top_p: Annotated[
        float | None, Meta(description="Of the likeliest tokens that have this share together.")
    ] = None
    top_k: Annotated[int | None, Meta(description="Of so many of the likeliest; 0: of all.")] = None
    min_p: Annotated[
        float | None, Meta(description="Of those at least this times as likely as the likeliest.")
    ] = None
    presence_penalty: Annotated[
        float, Meta(description="Off the logit of each token that was generated before.")
    ] = 0.0
    frequency_penalty: Annotated[
        float, Meta(description="Likewise, for each time that it was.")
    ] = 0.0
    repetition_penalty: Annotated[
        float | None, Meta(description="Divides the logits of tokens of prompt and text.")
    ] = None
    seed: Annotated[
        int | None, Meta(description="The same one gives the same text; unset: one is drawn.")
    ] = None
    stop: Annotated[
        str | list[str], Meta(description="What ends the text, and is no part of it.")
    ] = []
    logprobs: Annotated[
        int | None, Meta(description="Tell each token, and so many that could have stood there.")
    ] = None
    bias: Annotated[
        dict[int, float], Meta(description="Token id to what is added to its logit.")
    ] = {}
    json: Annotated[bool, Meta(description="The text is a JSON object.")] = False
    schema: Annotated[
        dict[str, Any] | None, Meta(description="The text is JSON of this schema.")
    ] = None
    regex: Annotated[str | None, Meta(description="The text is one that this matches.")] = None
    grammar: Annotated[str | None, Meta(description="The text is one of this grammar; Lark.")] = (
        None
    )
    tools: Annotated[
        list[dict[str, Any]] | None,
        Meta(description="Of conversations, what the model may call; OpenAI's shape."),
    ] = None
    tool_choice: Annotated[
        str, Meta(description="auto, none, required, or the name of the one to call.")
    ] = "auto"
    template: Annotated[
        dict[str, Any], Meta(description="What else the chat template is given.")
    ] = {}


#: An option's name as the caller knows it.
Named = Callable[[str], str]


def generate_params(
    options: GenerateOptions,
    named: Named,
    *,
    chat: bool,
    stream: bool,
    apart: bool = False,
    read_bytes: int = 0,
) -> GenerateParams:
    """`options` as they travel, but for the seed.

    `named`: an option's name in the body; `apart`: a stream tells reasoning and calls as they come, too;
    `read_bytes`: as `GenerateParams` has it.

    Raises:
        InvalidRequest: an option is out of its range, or does not go with another.
        PayloadTooLarge: a schema, a grammar or tools are too large.
    """
    _check_ranges(options, named)
    top_p = None if options.top_p is None else max(LEAST_TOP_P, options.top_p)
    tools = _tools(options, named, chat=chat)
    if options.template and not chat:
        _refuse(named("template"), "is given to the template of conversations; this is a text")
    return GenerateParams(
        chat=chat,
        stream=stream,
        max_tokens=options.max_tokens,
        temperature=options.temperature,
        top_p=top_p,
        top_k=options.top_k,
        min_p=options.min_p,
        presence_penalty=options.presence_penalty,
        frequency_penalty=options.frequency_penalty,
        repetition_penalty=options.repetition_penalty,
        stop=_stops(options.stop, named("stop")),
        logprobs=options.logprobs,
        bias=_bias(options.bias, named("bias")),
        grammar=_grammar(options, named),
        tools=tools,
        tool_choice=options.tool_choice if tools else "auto",
        template=_packed(options.template, named("template")) if options.template else "",
        apart=stream and apart,
        read_bytes=read_bytes,
    )


def drawn_seeds(count: int) -> tuple[int, ...]:
    """One for each text, where the caller names none."""
    first = secrets.randbits(62)
    return tuple(range(first, first + count))


def _refuse(where: str, why: str) -> NoReturn:
    raise InvalidRequest(f"{where} {why}", param=where)


def _check_ranges(options: GenerateOptions, named: Named) -> None:
    for name, (least, most) in RANGES.items():
        value = getattr(options, name)
        if value is not None and not least <= value <= most:
            _refuse(named(name), f"is {value}: it is from {least} to {most}")


def _stops(stop: str | list[str], where: str) -> tuple[str, ...]:
    stops = (stop,) if isinstance(stop, str) else tuple(stop)
    if len(stops) > STOPS_MOST:
        _refuse(where, f"has {len(stops)} texts; it may have {STOPS_MOST}")
    for text in stops:
        if not 0 < len(text) <= STOP_MOST_CHARACTERS:
            _refuse(where, f"has a text of {len(text)} characters: 1 to {STOP_MOST_CHARACTERS}")
    return stops


def _bias(bias: dict[int, float], where: str) -> tuple[tuple[int, float], ...]:
    if len(bias) > BIASES_MOST:
        _refuse(where, f"has {len(bias)} tokens; it may have {BIASES_MOST}")
    for token, value in bias.items():
        if not 0 <= token < IDS_MOST or not abs(value) <= BIAS_MOST:
            _refuse(
                where, f"has {token}: {value:g}; ids are 0 to {IDS_MOST - 1}, values -100 to 100"
            )
    return tuple(sorted(bias.items()))


def _grammar(options: GenerateOptions, named: Named) -> tuple[GrammarKind, str] | None:
    asked = [name for name in GRAMMARS if getattr(options, name) not in (None, False)]
    if not asked:
        return None
    if len(asked) > 1:
        names = " and ".join(dict.fromkeys(map(named, asked)))
        _refuse(named(asked[1]), f"a text can keep to one form: leave out one of {names}")
    (name,) = asked
    value = getattr(options, name)
    if name == "json":
        return (GRAMMARS[name], "")
    if not value and name != "schema":
        _refuse(named(name), "is empty")
    text = value if isinstance(value, str) else _packed(value, named(name))
    _check_size(text, named(name))
    return (GRAMMARS[name], text)


def _tools(options: GenerateOptions, named: Named, *, chat: bool) -> str:
    """The tools as they travel; empty if none may be called."""
    where, choice = named("tools"), options.tool_choice
    if not options.tools:
        if choice not in ("auto", "none"):
            _refuse(named("tool_choice"), f"is {choice[:80]}, and there are no tools")
        return ""
    if not chat:
        _refuse(where, "are for conversations; this is a text")
    names = [_tool_name(tool, f"{where}[{n}]") for n, tool in enumerate(options.tools)]
    packed = _packed(options.tools, where)
    if choice not in ("auto", "none", "required", *names):
        _refuse(named("tool_choice"), f"is no tool: '{choice[:80]}'{nearest(choice, names)}")
    return "" if choice == "none" else packed


def _tool_name(tool: dict[str, Any], where: str) -> str:
    function = tool.get("function")
    if tool.get("type", "function") != "function" or not isinstance(function, dict):
        raise InvalidRequest(
            f"{where} must be of the type function, with a map 'function'", param=where
        )
    name, parameters = function.get("name"), function.get("parameters")
    if not isinstance(name, str) or not name:
        raise InvalidRequest(f"{where}.function has no name", param=f"{where}.function")
    if parameters is not None and not isinstance(parameters, dict):
        _refuse(f"{where}.function.parameters", "must be a JSON schema, a map")
    return name


def _packed(value: Any, where: str) -> str:
    try:
        text = msgspec.json.encode(value).decode()
    except TypeError:  # MessagePack has more than JSON
        _refuse(where, "holds what JSON has not: only texts, numbers, lists and maps of names")
    _check_size(text, where)
    return text


def _check_size(text: str, where: str) -> None:
    if (size := len(text.encode())) > TEXT_MOST_BYTES:
        raise PayloadTooLarge(
            f"{where} has {size} bytes; it may have {TEXT_MOST_BYTES}", param=where
        )
