"""A server with SGLang's HTTP API and a toy in place of a model; ``python server.py --model-path …``.

Shapes and rules are written after the sources of SGLang 0.5.23, its wheel of October 2026, and earlier ones
of 0.5 where those differ (``sglang/srt``):

- ``entrypoints/http_server.py``: routes, ``data: …`` events, ``[DONE]``, both shapes of errors, LoRA routes
  (400 without ``--enable-lora``);
- ``managers/tokenizer_manager.py``: ``output_ids`` are cumulative, or disjoint with
  ``--incremental-streaming-output``, as are lists of likelihoods; what is wrong with a request comes inside
  the stream, with status 200;
- ``managers/schedule_batch.py``: ``finish_reason`` objects, the order of reasons to end (grammar, most tokens,
  then stop ids and the model's own ends, which ``ignore_eos`` turns off together), the last id is told;
- ``managers/scheduler.py``: an abort is of all whose ``rid`` begins so; a full queue is an abort with 503;
  ``memory_usage`` in GiB;
- ``layers/sampler.py``, ``sampling/penaltylib``: penalties count generated tokens alone, likelihoods are told
  after a temperature unless SGLANG_RETURN_ORIGINAL_LOGPROB is set, seeds count only with
  ``--enable-deterministic-inference``, with which a ``min_p`` ends the server.

- ``sglang/api/v1/api_types.py``: keys of requests (unknown ones of ``sampling_params`` are refused), of answers
  and errors; what the runtime sends and this server answers passes those decoders.

What it answers was compared with SGLang 0.5.23 while that ran, on a CPU (docs/runtimes.md): `/model_info`,
`/server_info`, `/health`, streams of `/generate` with likelihoods, ends, aborts and refusals, both LoRA routes;
a text's name that is taken, or is aborted two seconds after another text of that name, was found so. Not:
disjoint ids, a full queue, keys, and what older versions do; grammars are only recognised.
Prompts with the ids below make it fail in ways that the tests need.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn

VOCABULARY = 300
EOS = 2
DIE, CUT, BROKEN, FULL, FULL_ONCE, STOPPED, SILENT = range(290, 297)
#: Of ``SamplingParams``.
_DEFAULTS = {
    "max_new_tokens": 128,
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": -1,
    "min_p": 0.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
    "sampling_seed": 42,
}
_OTHERS = {"stop_token_ids", "ignore_eos", "logit_bias", "json_schema", "regex", "ebnf"}
_AFTER = 3  # tokens, until one of these happens
#: After the end of any answer, whatever has its `rid` by then is aborted.
_LATE_S = 2

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class Text:
    """A request under way."""

    def __init__(self, body: dict[str, Any]) -> None:
        self.prompt: list[int] = body["input_ids"]
        self.params: dict[str, Any] = _DEFAULTS | body["sampling_params"]
        self.body = body
        self.ids: list[int] = []
        self.told: list[list[Any]] = []
        self.top: list[list[list[Any]]] = []
        self.aborted = False


class Server:
    """Its state; `app` answers."""

    def __init__(self, flags: argparse.Namespace) -> None:
        self.flags = flags
        self.texts: dict[str, Text] = {}
        self.adapters: dict[str, str] = {}
        self.full_once = True
        self.most = 0
        self.aborts: list[str] = []

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            return
        body, more = b"", True
        while more:
            part = await receive()
            body, more = body + part.get("body", b""), part.get("more_body", False)
        if self.flags.api_key and scope["path"] != "/health":
            wanted = f"Bearer {self.flags.api_key}".encode()
            if dict(scope["headers"]).get(b"authorization") != wanted:
                await _answer(send, {"error": "Unauthorized"}, 401)
                return
        match scope["path"]:
            case "/health":
                await _answer(send, None, 503 if self.flags.unhealthy else 200)
            case "/model_info" if not self.flags.old_routes:
                await _answer(send, self._model())
            case "/get_model_info":
                await _answer(send, self._model())
            case "/server_info" if not self.flags.old_routes:
                await _answer(send, self._info())
            case "/get_server_info":
                await _answer(send, self._info())
            case "/generate":
                await self._generate(json.loads(body), receive, send)
            case "/abort_request":
                self._abort(json.loads(body)["rid"])
                await _answer(send, None)
            case "/load_lora_adapter" | "/unload_lora_adapter":
                await self._adapter(scope["path"], json.loads(body), send)
            case "/seen":  # of the tests alone
                seen = {"running": len(self.texts), "most": self.most, "aborts": self.aborts}
                await _answer(send, seen)
            case _:
                await _answer(send, {"detail": "Not Found"}, 404)

    def _model(self) -> dict[str, Any]:
        return {
            "model_path": self.flags.model_path,
            "served_model_name": self.flags.model_path,
            "tokenizer_path": self.flags.model_path,
            "is_generation": True,
            "preferred_sampling_params": None,
            "weight_version": "default",
            "has_image_understanding": False,
            "has_audio_understanding": False,
            "model_type": self.flags.model_type,
            "architectures": ["LlamaForCausalLM"],
        }

    def _info(self) -> dict[str, Any]:
        return {
            "model_path": self.flags.model_path,
            "served_model_name": self.flags.model_path,
            "device": self.flags.device,
            "dtype": self.flags.dtype,
            "tp_size": 1,
            "dp_size": 1,
            "enable_lora": self.flags.enable_lora or None,
            "grammar_backend": self.flags.grammar_backend,
            "enable_deterministic_inference": self.flags.enable_deterministic_inference,
            "incremental_streaming_output": self.flags.incremental_streaming_output,
            "max_total_num_tokens": 4096,
            "max_req_input_len": self.flags.context_length - 6,
            "internal_states": [
                {
                    "last_gen_throughput": 0.0,
                    "memory_usage": {
                        "weight": 0.25,
                        "kvcache": 0.375,
                        "startup_available": 9.0,
                        "token_capacity": 4096,
                        "token_capacity_swa": None,
                        "graph": {"decode": 0.125, "prefill": 0.0},
                    },
                }
            ],
            "version": "0.5.23",
        }

    def _abort(self, rid: str) -> None:
        self.aborts.append(rid)
        for own, text in self.texts.items():
            if own.startswith(rid):
                text.aborted = True

    async def _adapter(self, path: str, asked: dict[str, Any], send: Send) -> None:
        name, error = asked["lora_name"], None
        if not self.flags.enable_lora:
            error = "LoRA is not enabled. Please set `--enable-lora` to enable LoRA."
        elif path == "/load_lora_adapter":
            if name in self.adapters:
                error = f"Failed to load LoRA adapter {name} because it is already loaded"
            elif not (folder := Path(asked["lora_path"])).is_dir():
                error = f"Repo id must use alphanumeric chars, '-', '_' or '.'. […]: '{folder}'."
            else:
                self.adapters[name] = str(folder)
        elif self.adapters.pop(name, None) is None:
            error = f"LoRA with name {name} does not exist. Loaded LoRAs: {self.adapters.keys()}"
        said = {"success": error is None, "error_message": error or ""}
        told = {"rid": None, "http_worker_ipc": None, **said, "loaded_adapters": self.adapters}
        await _answer(send, told, 200 if error is None else 400)

    async def _generate(self, body: dict[str, Any], receive: Receive, send: Send) -> None:
        if not isinstance(body.get("input_ids"), list):
            told = {"object": "error", "message": "input_ids", "type": "Bad Request", "code": 400}
            await _answer(send, told, 400)
            return
        if unknown := body["sampling_params"].keys() - _DEFAULTS.keys() - _OTHERS:
            await _answer(send, {"error": f"sampling_params: unknown field `{min(unknown)}`"}, 400)
            return
        text, rid = Text(body), body.get("rid") or os.urandom(8).hex()
        events = [(b"content-type", b"text/event-stream; charset=utf-8")]
        await send({"type": "http.response.start", "status": 200, "headers": events})
        if (wrong := self._wrong(text, rid)) is not None:
            kind = {"type": "invalid_request_error", "code": 400, "retryable": False}
            await _event(send, {"error": {"message": wrong, **kind}})
        elif FULL in text.prompt or (FULL_ONCE in text.prompt and self.full_once):
            self.full_once = False
            await _event(send, self._event(text, rid, _abort("The request queue is full.", 503)))
        else:
            self.texts[rid] = text
            self.most = max(self.most, len(self.texts))
            leaving = asyncio.create_task(_left(receive, text))
            try:
                await self._stream(text, rid, send)
            finally:
                leaving.cancel()
                del self.texts[rid]
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})
        await asyncio.sleep(_LATE_S)
        if (named_so := self.texts.get(rid)) is not None:
            named_so.aborted = True

    def _wrong(self, text: Text, rid: str) -> str | None:
        params = text.params
        if rid in self.texts:
            return f"Duplicate request ID detected: {rid}"
        if len(text.prompt) + params["max_new_tokens"] > self.flags.context_length:
            return "Requested token count exceeds the model's maximum context length"
        if not 0 < params.get("top_p", 1.0) <= 1:
            return f"top_p must be in (0, 1], got {params['top_p']}."
        if params.get("top_k", -1) < 1 and params.get("top_k", -1) != -1:
            return f"top_k must be -1 (disable) or at least 1, got {params['top_k']}."
        for token in params.get("logit_bias") or {}:
            if not 0 <= int(token) < VOCABULARY:
                return f"logit_bias must has keys in [0, {VOCABULARY - 1}], got {token}."
        name = text.body.get("lora_path")
        if name is not None and name not in self.adapters:
            return f"Got LoRA adapter that has never been loaded: {name}"
        return None

    async def _stream(self, text: Text, rid: str, send: Send) -> None:
        finish: dict[str, Any] | None = None
        while finish is None:
            await asyncio.sleep(self.flags.token_s)
            while (self.flags.mute or SILENT in text.prompt) and not text.aborted:
                await asyncio.sleep(0.01)
            if text.aborted:
                finish = _abort("Aborted", None)
            else:
                self._next(text)
                finish = _finish(text)
            if len(text.ids) == _AFTER and (finish := await self._fail(text, send)):
                pass
            await _event(send, self._event(text, rid, finish))

    async def _fail(self, text: Text, send: Send) -> dict[str, Any] | None:
        """What a prompt asks for."""
        if DIE in text.prompt:
            print("fatal: told to die", flush=True)
            os._exit(3)
        if CUT in text.prompt:
            raise ConnectionAbortedError("told to")  # uvicorn closes the connection
        if BROKEN in text.prompt:
            await send(
                {
                    "type": "http.response.body",
                    "body": b'data: {"output_ids": [1,\n\n',
                    "more_body": True,
                }
            )
        if STOPPED in text.prompt:
            return _abort("Input is too strange", 400)
        return _finish(text)

    def _next(self, text: Text) -> None:
        params, place = text.params, len(text.ids)
        key = [*text.prompt, *text.ids[-1:], place, *(text.body.get("lora_path") or "").encode()]
        logits = np.random.default_rng(key).normal(0, 2, VOCABULARY)
        if text.ids:
            counts = np.bincount(text.ids, minlength=VOCABULARY)
            logits -= params["frequency_penalty"] * counts + params["presence_penalty"] * (
                counts > 0
            )
            scale = np.where(counts > 0, params["repetition_penalty"], 1.0)
            logits = np.where(logits > 0, logits / scale, logits * scale)
        for token, bias in (params.get("logit_bias") or {}).items():
            logits[int(token)] += bias
        if params["min_p"] and self.flags.enable_deterministic_inference:
            print("AssertionError: With sampling seed, […] will provide wrong results", flush=True)
            os._exit(1)
        original, temperature = _softmax(logits), params["temperature"] or 1.0
        likely = _softmax(logits / temperature)
        token = int(np.argmax(likely)) if params["temperature"] == 0 else self._draw(text, likely)
        text.ids.append(token)
        told = np.log(original if self.flags.original_logprob else likely)
        text.told.append([float(told[token]), token, None])
        most = np.argsort(-told)[: text.body.get("top_logprobs_num") or 0]
        text.top.append([[float(told[n]), int(n), None] for n in most])

    def _draw(self, text: Text, likely: Any) -> int:
        """After the filters; by the seed alone where the server keeps seeds."""
        params, order = text.params, np.argsort(-likely)
        keep = np.cumsum(likely[order]) - likely[order] < params.get("top_p", 1.0)
        keep &= likely[order] >= params.get("min_p", 0.0) * likely[order[0]]
        if (top_k := params.get("top_k", -1)) > 0:
            keep[top_k:] = False
        chosen = np.where(keep, likely[order], 0)
        seed = [params["sampling_seed"], len(text.ids)]
        random = np.random.default_rng(seed if self.flags.enable_deterministic_inference else None)
        return int(random.choice(order, p=chosen / chosen.sum()))

    def _event(self, text: Text, rid: str, finish: dict[str, Any] | None) -> dict[str, Any]:
        begin = len(text.ids) - 1 if self.flags.incremental_streaming_output else 0
        meta: dict[str, Any] = {
            "id": rid,
            "finish_reason": finish,
            "prompt_tokens": len(text.prompt),
            "weight_version": "default",
            "completion_tokens": len(text.ids),
            "cached_tokens": len(text.prompt) // 2,
        }
        if text.body.get("return_logprob"):
            meta["input_token_logprobs"] = []
            meta["output_token_logprobs"] = text.told[begin:]
            meta["output_token_logprobs_length"] = len(text.told)
            if text.body.get("top_logprobs_num"):
                meta["output_top_logprobs"] = text.top[begin:]
        words = "".join(f"<{token}>" for token in text.ids[begin:])
        return {"text": words, "output_ids": text.ids[begin:], "meta_info": meta}


def _finish(text: Text) -> dict[str, Any] | None:
    params, last = text.params, text.ids[-1]
    if len(text.ids) >= params["max_new_tokens"]:
        return {"type": "length", "length": params["max_new_tokens"]}
    ends = last in (params.get("stop_token_ids") or ()) or last == EOS
    if ends and not params.get("ignore_eos"):
        return {"type": "stop", "matched": last}
    return None


def _abort(message: str, status: int | None) -> dict[str, Any]:
    return {"type": "abort", "message": message, "status_code": status, "err_type": None}


def _softmax(logits: Any) -> Any:
    powers = np.exp(logits - logits.max())
    return powers / powers.sum()


async def _left(receive: Receive, text: Text) -> None:
    """Who has gone gets no more; SGLang finds out later."""
    while (await receive())["type"] != "http.disconnect":
        pass
    await asyncio.sleep(_LATE_S)
    text.aborted = True


async def _event(send: Send, told: dict[str, Any]) -> None:
    data = b"data: " + json.dumps(told).encode() + b"\n\n"
    await send({"type": "http.response.body", "body": data, "more_body": True})


async def _answer(send: Send, told: Any, status: int = 200) -> None:
    data = b"" if told is None else json.dumps(told).encode()
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": data})


def main() -> None:
    """Flags as ``sglang.launch_server`` has them, then those of the tests."""
    flags = argparse.ArgumentParser()
    flags.add_argument("--model-path", required=True)
    flags.add_argument("--host", default="127.0.0.1")
    flags.add_argument("--port", type=int, default=30000)
    flags.add_argument("--device", default="cpu")
    flags.add_argument("--dtype", default="auto")
    flags.add_argument("--base-gpu-id", type=int, default=0)
    flags.add_argument("--context-length", type=int, default=512)
    flags.add_argument("--api-key")
    flags.add_argument("--grammar-backend", default="xgrammar")
    for switch in ("enable-lora", "enable-deterministic-inference", "incremental-streaming-output"):
        flags.add_argument(f"--{switch}", action="store_true")
    flags.add_argument("--token-s", type=float, default=0.002)
    flags.add_argument("--model-type", default="llama")
    for switch in ("unhealthy", "mute", "old-routes", "fail-at-start"):
        flags.add_argument(f"--{switch}", action="store_true")
    read = flags.parse_args()
    read.original_logprob = os.environ.get("SGLANG_RETURN_ORIGINAL_LOGPROB") == "1"
    print(f"server_args: {read}", flush=True)
    if read.fail_at_start:
        print("torch.OutOfMemoryError: CUDA out of memory", flush=True)
        sys.exit(1)
    server = Server(read)
    uvicorn.run(
        server.app,
        host=read.host,
        port=read.port,
        log_level="error",
        lifespan="off",
        interface="asgi3",
    )


if __name__ == "__main__":
    main()
