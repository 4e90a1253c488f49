"""Waits until a gateway says that it is ready, then tells people and programs where it is."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import httpx
import msgspec

from shoal.broker.connection import Connection
from shoal.cli.context import Running, write_running
from shoal.errors import ModelLoadFailed
from shoal.wire import subjects
from shoal.wire.queue import WorkerPulse, decode_queue

if TYPE_CHECKING:
    from shoal.cli.stack import Plan

POLL_S = 0.1
#: After this long a wait needs an explanation, and again.
EXPLAIN_S = 10.0
ANSWER_S = 5.0
_ANY = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - recognized, not bound


async def announce(plan: Plan, broker_url: str) -> None:
    """Wait for readiness, write the state file, print the banner; keep the file until cancelled.

    Raises:
        ModelLoadFailed: a model that was asked for cannot be loaded, with the reason.
    """
    url = f"http://{_ANY.get(plan.gateway.host, plan.gateway.host)}:{plan.port}"
    started = time.monotonic()
    async with _failures(plan, broker_url) as failures:
        await _until_ready(url, failures)
    path = write_running(Running(os.getpid(), url, broker_url, plan.models))
    try:
        print(banner(plan, url, time.monotonic() - started), flush=True)
        await asyncio.Event().wait()
    finally:
        path.unlink(missing_ok=True)


@asynccontextmanager
async def _failures(plan: Plan, broker_url: str) -> AsyncIterator[list[str]]:
    """Collects what workers say of models that were asked for and cannot be loaded."""
    failures: list[str] = []

    def heard(data: bytes, *_: object) -> None:
        pulse = decode_queue(data)
        if isinstance(pulse, WorkerPulse):
            failures.extend(
                f"model '{model}' cannot be loaded: {said.reason}"
                for model, said in pulse.models.items()
                if model in plan.models and said.state == "failed"
            )

    settings = msgspec.structs.replace(plan.serve, broker_url=broker_url)
    connection = await Connection.open(settings, "shoal-serve")
    try:
        connection.subscribe(f"{subjects.WORKER_PULSES}.>", heard)
        yield failures
    finally:
        await connection.close()


async def _until_ready(url: str, failures: list[str]) -> None:
    explain_at = time.monotonic() + EXPLAIN_S
    async with httpx.AsyncClient(timeout=ANSWER_S, trust_env=False) as http:
        while True:
            ready, why = await _ask(http, url)
            if ready:
                return
            if failures:
                raise ModelLoadFailed(failures[0])
            if time.monotonic() >= explain_at:
                explain_at += EXPLAIN_S
                print(f"still starting: {why}", file=sys.stderr, flush=True)
            await asyncio.sleep(POLL_S)


async def _ask(http: httpx.AsyncClient, url: str) -> tuple[bool, str]:
    try:
        answer = await http.get(f"{url}/readyz")
    except httpx.HTTPError:
        return False, "the gateway does not answer yet"
    return answer.status_code == 200, answer.text.strip()[:300]


def _models(plan: Plan) -> str:
    if not plan.models:
        return "the whole catalog, each loaded when asked for"
    others = "; others of the catalog when asked for" if plan.worker.on_demand else ""
    return f"{', '.join(plan.models)}{others}"


def banner(plan: Plan, url: str, took_s: float) -> str:
    """What a person needs to use what just started."""
    model = plan.models[0] if plan.models else "all-MiniLM-L6-v2"
    key = (
        " \\\n      -H 'Authorization: Bearer '$SHOAL_API_KEY"
        if plan.gateway.api_key or plan.gateway.api_keys
        else ""
    )
    lines = [
        "",
        f"  Shoal is ready after {took_s:.1f} s at {url}",
        f"  models:  {_models(plan)}",
        "",
        f"    curl {url}/v1/embeddings{key} -H 'Content-Type: application/json' \\",
        f"""      -d '{{"model": "{model}", "input": ["a fish", "a bird"]}}'""",
        "",
        f"  OpenAI clients: base_url={url}/v1   health: {url}/readyz   metrics: {url}/metrics",
        "  see also: shoal status, shoal encode, docs/api.md; Ctrl-C stops it",
    ]
    if plan.gateway.host in _ANY and not key:
        lines.append("  Anyone who reaches this machine may use it: set SHOAL_API_KEY.")
    return "\n".join([*lines, ""])
