"""What can be asked of a gateway: turns every call into exchanges, for a shell to perform.

With `job` all that both clients share; only sending and sleeping is theirs.
"""

from __future__ import annotations

from typing import Any, Unpack

import msgspec
import numpy as np
from numpy.typing import NDArray

from shoal.client import encode, extract, generate, score
from shoal.client.encode import Encoded, EncodeOptions
from shoal.client.extract import Extracted, ExtractOptions
from shoal.client.generate import Generated, GenerateOptions, Prompt, Prompts
from shoal.client.items import Given, Givens, Limits, items_of, query_of
from shoal.client.job import Call, Job, Report
from shoal.client.models import Get, Model, ModelList, Probe
from shoal.client.plan import Plan
from shoal.client.protocol import Exchange, OnRetry, Policy, Retry
from shoal.client.question import spelled
from shoal.client.score import Scored, ScoreOptions
from shoal.client.stream import StreamQuestion
from shoal.wire.objects import Extraction, Generation

#: Most seconds of a request, where the caller says nothing; of one that generates, as gateways have it.
TIMEOUT_S, GENERATE_TIMEOUT_S = 60.0, 300.0


def policies(
    timeout_s: float | None, retries: int, on_retry: OnRetry | None = None
) -> tuple[Policy, Policy]:
    """Those of an `Api`; `timeout_s` None: as the call's kind has it. Raises `ConfigError`."""
    retry = Retry(retries)
    seconds = (TIMEOUT_S, GENERATE_TIMEOUT_S) if timeout_s is None else (timeout_s, timeout_s)
    every, generating = (Policy(most_s, retry, on_retry=on_retry) for most_s in seconds)
    return every, generating


class Api:
    """Plans every call, and makes its exchanges; those that generate keep to a policy of their own.

    Clients have a method of each name that is planned here, with these arguments and words.
    """

    def __init__(self, policy: Policy, generating: Policy, limits: Limits) -> None:
        self._policy = policy
        self._generating = generating
        self._limits = limits

    def encode(
        self,
        model: str,
        items: Givens,
        *,
        progress: bool | Report = False,
        **options: Unpack[EncodeOptions],
    ) -> Plan[NDArray[Any]]:
        """Dense vectors of `items` in their order: [n, dim], or [dim] for a single one.

        Args:
            model: name of a model the gateway serves.
            items: a string, strings, lists of token ids; or, for models that take images or audio,
                the `bytes` or `Path` of a file, an image of Pillow's, an array of pixels.
            progress: show a bar on stderr, or call a function with (answered, in all).
            options: see `EncodeOptions`.

        Raises:
            ShoalError: the request or one of its items failed; the class says why.
        """
        detailed = self.encode_detailed(
            model, items, progress=progress, **encode.dense_only(options)
        )
        return detailed.strictly(lambda told: encode.vectors_of(told, items))

    def encode_detailed(
        self,
        model: str,
        items: Givens,
        *,
        progress: bool | Report = False,
        **options: Unpack[EncodeOptions],
    ) -> Plan[Encoded]:
        """As `encode`, of all outputs, with token counts, what was truncated, and errors by item.

        Raises:
            ShoalError: a request failed as a whole.
        """

        def make(call: Call) -> Job[encode.Vectors, Encoded]:
            asked, given = encode.asked(model, options), items_of(items)
            collector = encode.EncodeCollector(model, len(given), asked.fields["params"])
            return Job(asked, given, collector, call, self._policy, self._limits)

        return Plan("encode", progress, make, items)

    def score(
        self,
        model: str,
        query: Given,
        documents: Givens,
        *,
        progress: bool | Report = False,
        **options: Unpack[ScoreOptions],
    ) -> Plan[NDArray[np.float32]]:
        """How well each document answers the query: float32 [n], in their order.

        Raises:
            ShoalError: the request or one of the documents failed; the class says why.
        """
        detailed = self.score_detailed(model, query, documents, progress=progress, **options)
        return detailed.strictly(lambda told: told.scores)

    def score_detailed(
        self,
        model: str,
        query: Given,
        documents: Givens,
        *,
        progress: bool | Report = False,
        **options: Unpack[ScoreOptions],
    ) -> Plan[Scored]:
        """As `score`, with token counts, what was truncated, and errors document by document.

        Raises:
            ShoalError: a request failed as a whole.
        """

        def make(call: Call) -> Job[float, Scored]:
            asked = score.asked(model, query_of(query), options)
            given = items_of(documents)
            collector = score.ScoreCollector(model, len(given))
            return Job(asked, given, collector, call, self._policy, self._limits)

        return Plan("score", progress, make, documents)

    def extract(
        self,
        model: str,
        items: Givens,
        *,
        progress: bool | Report = False,
        **options: Unpack[ExtractOptions],
    ) -> Plan[list[Extraction]]:
        """Entities, labels or a transcript of each item, in their order.

        Raises:
            ShoalError: the request or one of its items failed; the class says why.
        """
        detailed = self.extract_detailed(model, items, progress=progress, **options)
        return detailed.strictly(lambda told: told.found)

    def extract_detailed(
        self,
        model: str,
        items: Givens,
        *,
        progress: bool | Report = False,
        **options: Unpack[ExtractOptions],
    ) -> Plan[Extracted]:
        """As `extract`, with token counts, what was truncated, and errors item by item.

        Raises:
            ShoalError: a request failed as a whole.
        """

        def make(call: Call) -> Job[Extraction, Extracted]:
            asked, given = extract.asked(model, options), items_of(items)
            collector = extract.ExtractCollector(model, len(given))
            return Job(asked, given, collector, call, self._policy, self._limits)

        return Plan("extract", progress, make, items)

    def generate(
        self,
        model: str,
        items: Prompts,
        *,
        progress: bool | Report = False,
        **options: Unpack[GenerateOptions],
    ) -> Plan[list[Generation]]:
        """What follows each text, or is answered in each conversation, in their order.

        Args:
            items: a text or a conversation, or a list of them. A conversation is a list of messages,
                ``{"role": "user", "content": "…"}``.

        Raises:
            ShoalError: the request or one of its items failed; the class says why.
        """
        detailed = self.generate_detailed(model, items, progress=progress, **options)
        return detailed.strictly(lambda told: told.texts)

    def generate_detailed(
        self,
        model: str,
        items: Prompts,
        *,
        progress: bool | Report = False,
        **options: Unpack[GenerateOptions],
    ) -> Plan[Generated]:
        """As `generate`, with token counts, and errors item by item.

        Raises:
            ShoalError: a request failed as a whole.
        """

        def make(call: Call) -> Job[Generation, Generated]:
            asked, given = generate.asked(model, options), generate.prompts_of(items)
            collector = generate.GenerateCollector(model, len(given))
            few = min(self._limits.request_items, generate.REQUEST_ITEMS)
            limits = msgspec.structs.replace(self._limits, request_items=few)
            return Job(asked, given, collector, call, self._generating, limits)

        return Plan("generate", progress, make)

    def stream(self, model: str, item: Prompt, options: GenerateOptions) -> Exchange[None]:
        given = generate.prompt_of(item, "item")
        return Exchange(StreamQuestion(generate.asked(model, options), given), self._generating)

    def models(self) -> Exchange[ModelList]:
        return Exchange(Get("/v1/models", ModelList), self._policy)

    def model(self, name: str) -> Exchange[Model]:
        return Exchange(Get(f"/v1/models/{spelled(name)}", Model), self._policy)

    def ready(self) -> Exchange[bool]:
        return self._probe("/readyz")

    def health(self) -> Exchange[bool]:
        return self._probe("/healthz")

    def _probe(self, path: str) -> Exchange[bool]:
        retry = msgspec.structs.replace(self._policy.retry, limit=0)
        return Exchange(Probe(path), msgspec.structs.replace(self._policy, retry=retry))
