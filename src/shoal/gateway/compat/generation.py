"""What OpenAI's routes that generate share: fields of their bodies, how these map to ours, and usage.

Decides which fields are refused and which have no effect. The extra fields are those of vLLM.
https://platform.openai.com/docs/api-reference/chat/create
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from shoal.errors import InvalidRequest
from shoal.gateway.body import BodyDecoder
from shoal.gateway.compat.bodies import read_json
from shoal.gateway.counts import Counts
from shoal.gateway.request import Request
from shoal.gateway.sampling import GenerateOptions, drawn_seeds
from shoal.gateway.service import Gateway
from shoal.wire.objects import Alternative, TokenLogprob

#: As OpenAI.
N_MOST = 128
#: Below any likelihood that a float32 tells; JSON has no infinity, and OpenAI says this.
LEAST_LOGPROB = -9999.0
#: Characters that mean something in a regular expression.
_META = frozenset("\\.+*?()|[]{}^$")

NoEffect = Annotated[Any, Meta(description="Has no effect here.")]
Refused = Annotated[Any, Meta(description="Refused, unless null.")]


class StreamOptions(msgspec.Struct, frozen=True):
    """`include_usage`: a last chunk tells the tokens of all that was generated."""

    include_usage: bool = False


class StructuredOutputs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What form a text has, in vLLM's words; one of these."""

    json: dict[str, Any] | None = None
    regex: str | None = None
    choice: list[str] | None = None
    grammar: Annotated[str | None, Meta(description="Lark.")] = None
    json_object: bool | None = None


class SharedFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Fields of chat and completions alike."""

    model: Annotated[
        str | None, Meta(description="A model's name or alias; unset: the one that generates.")
    ] = None
    frequency_penalty: float | None = None
    logit_bias: dict[int, float] | None = None
    max_tokens: int | None = None
    n: Annotated[int | None, Meta(description="How many texts.")] = None
    presence_penalty: float | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: float | None = None
    top_p: float | None = None
    user: Annotated[
        str | None, Meta(description="Who of the caller's own users asks; users take turns.")
    ] = None

    min_p: float | None = None
    repetition_penalty: float | None = None
    top_k: Annotated[int | None, Meta(description="0 and -1: of all tokens.")] = None
    structured_outputs: StructuredOutputs | None = None
    guided_json: dict[str, Any] | None = None
    guided_regex: str | None = None
    guided_choice: list[str] | None = None
    guided_grammar: Annotated[str | None, Meta(description="Lark.")] = None

    @property
    def with_usage(self) -> bool:
        return self.stream_options is not None and self.stream_options.include_usage

    def shared(self) -> dict[str, Any]:
        """The options that they are, but for the form of the text."""
        return {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "top_k": 0 if self.top_k == -1 else self.top_k,
            "min_p": self.min_p,
            "presence_penalty": self.presence_penalty or 0.0,
            "frequency_penalty": self.frequency_penalty or 0.0,
            "repetition_penalty": self.repetition_penalty,
            "seed": self.seed,
            "stop": self.stop or [],
            "bias": self.logit_bias or {},
        }

    def forms(self) -> dict[str, Any]:
        """The form of the text, as options. Raises `InvalidRequest` where several are named, or none."""
        found = self._forms()
        for where, name, choice in found:
            if name == "choice" and not any(choice):
                raise InvalidRequest(f"{where} names nothing that the text may be", param=where)
        if len(found) > 1:
            raise InvalidRequest("a text can keep to one form: leave out all but one")
        return dict(_chosen(name, value) for _, name, value in found)

    def named(self) -> Callable[[str], str]:
        """What options are called in this body."""
        own = {"regex" if name == "choice" else name: where for where, name, _ in self._forms()}
        return lambda option: own.get(option) or named(option)

    def _forms(self) -> list[tuple[str, str, Any]]:
        """Where a form of the text is named, what of, and its value."""
        given = self.structured_outputs or StructuredOutputs()
        every = (
            ("structured_outputs.json", "schema", given.json),
            ("structured_outputs.regex", "regex", given.regex),
            ("structured_outputs.grammar", "grammar", given.grammar),
            ("structured_outputs.choice", "choice", given.choice),
            ("structured_outputs.json_object", "json", given.json_object or None),
            ("guided_json", "schema", self.guided_json),
            ("guided_regex", "regex", self.guided_regex),
            ("guided_grammar", "grammar", self.guided_grammar),
            ("guided_choice", "choice", self.guided_choice),
        )
        return [form for form in every if form[2] is not None]


def _chosen(name: str, value: Any) -> tuple[str, Any]:
    if name != "choice":
        return name, value
    return "regex", "|".join(_literal(text) for text in value)


def _literal(text: str) -> str:
    """As a regular expression; Python's own escapes more than others can read."""
    return "".join(f"\\{letter}" if letter in _META else letter for letter in text)


#: An option's name in these bodies, where it is another.
_NAMES = {"bias": "logit_bias", "json": "response_format", "schema": "response_format"}


def named(option: str) -> str:
    """What `option` is called here."""
    return _NAMES.get(option, option)


class ResponseSchema(msgspec.Struct, frozen=True):
    """A schema with its name."""

    name: str = ""
    schema: dict[str, Any] | None = None
    strict: bool | None = None
    description: str | None = None


class ResponseFormat(msgspec.Struct, frozen=True):
    """`text`, `json_object`, or `json_schema` with one."""

    type: str
    json_schema: ResponseSchema | None = None

    def forms(self, where: str) -> dict[str, Any]:
        """As options. Raises `InvalidRequest`."""
        match self.type:
            case "text":
                return {}
            case "json_object":
                return {"json": True}
            case "json_schema":
                if self.json_schema is None or self.json_schema.schema is None:
                    raise InvalidRequest(f"{where} has no schema", param=f"{where}.json_schema")
                return {"schema": self.json_schema.schema}
            case _:
                raise InvalidRequest(
                    f"{where}.type '{self.type[:40]}' is not known: "
                    f"use text, json_object or json_schema",
                    param=f"{where}.type",
                )


async def read_generating(gateway: Gateway, request: Request, decoder: BodyDecoder) -> Any:
    """A body; who of the caller's users asks is noted. Raises as `read_json`."""
    body = await read_json(gateway, request, decoder, gateway.settings.generate_timeout_s)
    if body.user:
        request.user = body.user.encode("utf-8", "surrogatepass")
    return body


def refuse(body: msgspec.Struct, fields: dict[str, str]) -> None:
    """Raises `InvalidRequest` where one of these has a value; field -> what to do instead."""
    for name, instead in fields.items():
        if getattr(body, name) is not None:
            raise InvalidRequest(f"{name} is not served here: {instead}", param=name)


def options(fields: dict[str, Any], *forms: dict[str, Any]) -> GenerateOptions:
    """All of them together. Raises `InvalidRequest` where `forms` name several."""
    given = [form for form in forms if form]
    if len(given) > 1:
        raise InvalidRequest(
            "response_format: a text can keep to one form: leave out all but one",
            param="response_format",
        )
    return GenerateOptions(**fields, **(given[0] if given else {}))


def chosen_tool(choice: str | dict[str, Any] | None) -> str:
    """``auto``, ``none``, ``required``, or a tool's name. Raises `InvalidRequest`."""
    match choice:
        case None:
            return "auto"
        case "auto" | "none" | "required":
            return choice
        case {"type": "function", "function": {"name": str(name)}}:
            return name
        case {"type": "function", "name": str(name)}:  # as /v1/responses has it
            return name
        case _:
            raise InvalidRequest(
                "tool_choice must be auto, none, required, or name one function",
                param="tool_choice",
            )


def count(n: int | None) -> int:
    """How many texts are wanted. Raises `InvalidRequest`."""
    if n is not None and not 1 <= n <= N_MOST:
        raise InvalidRequest(f"n is {n}: it is from 1 to {N_MOST}", param="n")
    return n or 1


def seeds(seed: int | None, prompts: int, n: int) -> tuple[int, ...]:
    """Of `n` texts for each prompt: that of the caller and the ones that follow, else drawn ones."""
    if seed is None:
        return drawn_seeds(prompts * n)
    return tuple(_wrapped(seed + k) for k in range(n)) * prompts


def _wrapped(seed: int) -> int:
    """In 64 bits with a sign."""
    return (seed + 2**63) % 2**64 - 2**63


class CachedTokens(msgspec.Struct, frozen=True):
    """Of a prompt, what had been computed before."""

    cached_tokens: int


class CompletionUsage(msgspec.Struct, frozen=True):
    """Tokens of a request; a prompt counts once, however many texts follow it."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: CachedTokens


def usage(counts: Iterable[tuple[int, Counts]], n: int) -> CompletionUsage:
    """Of items with their positions; `n` of them have the same prompt."""
    prompt = new = cached = 0
    for position, told in counts:
        new += told.new_tokens
        if position % n == 0:
            prompt += told.prompt_tokens
            cached += told.cached_tokens
    return CompletionUsage(prompt, new, prompt + new, CachedTokens(cached))


def token_text(token: TokenLogprob | Alternative) -> str:
    """As OpenAI shows a token, of which a part of a character is none."""
    return token.text or "".join(["bytes:", *(f"\\x{byte:02x}" for byte in token.bytes)])


def logprob(value: float) -> float:
    """A number that JSON has."""
    return max(LEAST_LOGPROB, value)
