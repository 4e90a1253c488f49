"""`POST /v1/audio/transcriptions` and `/v1/audio/translations`: OpenAI's forms, exact enough for the
official clients.

Decides how their fields map to ours, and the formats of a transcript.
https://platform.openai.com/docs/api-reference/audio/createTranscription
https://platform.openai.com/docs/api-reference/audio/createTranslation
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from shoal.catalog.card import Card
from shoal.errors import InvalidRequest
from shoal.gateway.asking import Answers, Question, ask, card_for, item_limits, read_body, refusal
from shoal.gateway.body import BodyDecoder, checked_item
from shoal.gateway.compat.media import media_item
from shoal.gateway.compat.multipart import Field, read_form
from shoal.gateway.compat.subtitles import srt, vtt
from shoal.gateway.envelope import openai
from shoal.gateway.extract import ExtractOptions, extract_params, told
from shoal.gateway.request import Request
from shoal.gateway.response import Response
from shoal.gateway.service import Gateway

PLAIN = b"text/plain; charset=utf-8"
#: A field that may come several times.
_LISTS = ("timestamp_granularities[]", "timestamp_granularities")


class TranscriptionForm(msgspec.Struct, frozen=True, rename={"granularities": _LISTS[0]}):
    """Fields of an OpenAI transcription request; those it does not know are ignored. A translation
    has neither `language` nor granularities."""

    file: Annotated[Any, Meta(extra_json_schema={"type": "string", "format": "binary"})]
    model: Annotated[
        str | None, Meta(description="A model's name or alias; unset: the one that transcribes.")
    ] = None
    response_format: Literal["json", "text", "srt", "verbose_json", "vtt"] = "json"
    granularities: Annotated[list[str], Meta(description="`segment`; words have no times.")] = []
    language: Annotated[
        str | None, Meta(description="That is spoken, such as `de`; unset: as it is heard.")
    ] = None
    prompt: Annotated[
        str | None, Meta(description="What might have been said before: names, spelling.")
    ] = None
    temperature: Annotated[
        float | None,
        Meta(description="Of the choice of words; 0, the default: more where a text goes wrong."),
    ] = None
    stream: bool = False


class TranscriptSegment(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was said from one second to another; see `wire.objects.Segment`."""

    id: int
    start: float
    end: float
    text: str
    temperature: float | None = None
    avg_logprob: float | None = None
    compression_ratio: float | None = None
    no_speech_prob: float | None = None


class TranscriptionAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """`json` has the text alone, `verbose_json` the rest too.

    Attributes:
        language: its code.
        duration: seconds of all of it.
    """

    text: str
    task: str | None = None
    language: str | None = None
    duration: float | None = None
    segments: list[TranscriptSegment] | None = None


_decoder = BodyDecoder(TranscriptionForm)
_SURELY = TranscriptSegment.__struct_fields__[4:]


class TranscriptionsRoute:
    """The handler of one of the routes, bound to a gateway."""

    def __init__(self, gateway: Gateway, task: Literal["transcribe", "translate"]) -> None:
        self._gateway, self._task = gateway, task

    async def post(self, request: Request, rest: str) -> Response:
        """Transcribe the form's `file`, or translate it into English."""
        gateway = self._gateway
        body = await read_body(gateway, request)
        fields = await read_form(body, request.headers.get(b"content-type", b""))
        del body
        form = _form(fields)
        card = card_for(gateway, form.model, "extract", ("transcript",))
        question = await self._question(card, form)
        form = msgspec.structs.replace(form, file=None)
        fields.clear()  # only the item is left
        answers = await ask(gateway, request, question)
        if (refused := refusal(answers, "file", openai)) is not None:
            return refused
        transcript = _transcript(answers)
        if transcript.get("language") is None and len(card.languages) == 1:
            transcript["language"] = card.languages[0]
        return _response(transcript, form.response_format, self._task)

    async def _question(self, card: Card, form: TranscriptionForm) -> Question:
        """Raises `InvalidRequest` for what cannot be asked of a transcript."""
        raw = msgspec.Raw(await media_item(form.file))
        item = checked_item(raw, "msgpack", item_limits(self._gateway, card), "file")
        translated = self._task == "translate"
        options = ExtractOptions(
            language=form.language or None,
            task=self._task if translated else None,
            prompt=form.prompt or None,
            # OpenAI's 0 is not as good as it gets, but where it begins.
            temperature=form.temperature or None,
        )
        return Question(card, extract_params(options, card, prefix=""), "msgpack", [item])


def _form(fields: list[Field]) -> TranscriptionForm:
    values: dict[str, Any] = {}
    for field in fields:
        if field.name in _LISTS:
            values.setdefault(_LISTS[0], []).append(field.text)
        else:
            values[field.name] = field.text if field.filename is None else field.data
    form: TranscriptionForm = _decoder.convert(values)
    if not isinstance(form.file, memoryview):
        raise InvalidRequest("file is not a file: give it a filename", param="file")
    if form.stream:
        raise InvalidRequest("stream: a transcript comes as a whole", param="stream")
    if wrong := [name for name in form.granularities if name != "segment"]:
        raise InvalidRequest(
            f"timestamp_granularities: '{wrong[0][:20]}' has no times, segments have",
            param=_LISTS[0],
        )
    return form


def _transcript(answers: Answers) -> dict[str, Any]:
    ((item,),) = answers.units()
    return {name: msgspec.msgpack.decode(raw) for name, raw in told(item).items()}


def _response(transcript: dict[str, Any], form: str, task: str) -> Response:
    text, segments = transcript["text"].strip(), transcript.get("segments", [])
    match form:
        case "text":
            return Response(f"{text}\n".encode(), content_type=PLAIN)
        case "srt":
            return Response(srt(segments).encode(), content_type=PLAIN)
        case "vtt":
            return Response(vtt(segments).encode(), content_type=b"text/vtt; charset=utf-8")
        case "verbose_json":
            answer = _verbose(text, task, transcript)
        case _:
            answer = TranscriptionAnswer(text)
    return Response(msgspec.json.encode(answer))


def _verbose(text: str, task: str, transcript: dict[str, Any]) -> TranscriptionAnswer:
    segments = [_segment(n, told) for n, told in enumerate(transcript.get("segments", []))]
    last = segments[-1].end if segments else 0.0
    duration = transcript.get("duration_s", last)
    return TranscriptionAnswer(text, task, transcript.get("language"), duration, segments)


def _segment(number: int, told: dict[str, Any]) -> TranscriptSegment:
    surely = {name: value for name, value in told.items() if name in _SURELY}
    return TranscriptSegment(number, told["start_s"], told["end_s"], told["text"], **surely)
