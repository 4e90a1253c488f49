"""Ask each model of a fleet what it is for: python examples/fleet/ask.py

`shoal serve --config examples/fleet/serve.toml` answers, in another terminal. It has room for a third
of these models; what that cost is told at the end.
"""

from __future__ import annotations

import argparse
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import httpx
from prometheus_client.parser import text_string_to_metric_families
from questions import QUESTIONS, Question

import shoal
from shoal.errors import ShoalError

#: Until the server is up.
READY_S = 60.0
#: For an answer, whose model may have to be read from a slow disk, on cores that others use too.
ANSWER_S = 300.0
SHOWN = 110


def main() -> None:
    """Ask everything, as often as is wished, then tell what of it was in memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("--metrics", default="http://127.0.0.1:8081/metrics", help="the worker's")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", nargs="*", help="names of models; all, if none is given")
    parser.add_argument("--at-once", action="store_true", help="instead of one after the other")
    asked = parser.parse_args()
    chosen = [one for one in QUESTIONS if not asked.only or one.model in asked.only]
    together = len(chosen) if asked.at_once else 1
    client = shoal.Client(asked.url, timeout_s=ANSWER_S)
    with client, ThreadPoolExecutor(together) as pool:
        wait(client)
        for number in range(1, asked.rounds + 1):
            print(f"\nRound {number}")
            print(f"{'model':<36}{'task':<18}{'was':<10}{'ms':>5}{'items':>6}{'tokens':>7}  answer")
            list(pool.map(partial(tell, client), chosen))  # an error of any is raised here
    summary(asked.metrics)


def wait(client: shoal.Client) -> None:
    """Until requests would be answered."""
    until = time.monotonic() + READY_S
    while not client.ready():
        if time.monotonic() > until:
            raise SystemExit("no server is ready; start it with the command above")
        time.sleep(0.1)


def tell(client: shoal.Client, question: Question) -> None:
    """One line: what state the model was in, and what it answered. An error ends all."""
    state = client.model(question.model).state
    began = time.perf_counter()
    try:
        computed, answer = question.ask(client, question.model)
        for error in computed.errors.values():
            raise error
    except ShoalError as error:
        raise SystemExit(f"{question.task} by {question.model}: {error}") from None
    took_ms = (time.perf_counter() - began) * 1000
    print(
        f"{question.model:<36}{question.task:<18}{state:<10}{took_ms:5.0f}"
        f"{len(computed.tokens):6}{computed.tokens.sum():7}  {textwrap.shorten(answer, SHOWN)}",
        flush=True,
    )


def summary(url: str) -> None:
    """What the worker says of its loads and its memory."""
    families = text_string_to_metric_families(httpx.get(url).text)
    samples = [sample for family in families for sample in family.samples]

    def total(name: str, **labels: str) -> float:
        return sum(
            sample.value
            for sample in samples
            if sample.name == f"shoal_worker_{name}" and labels.items() <= sample.labels.items()
        )

    print(
        f"\n{total('loads_total', outcome='loaded'):.0f} loads,"
        f" {total('evictions_total'):.0f} evictions;"
        f" at most {total('lane_bytes', what='most') / 1e6:.0f} MB held"
        f" of {total('lane_bytes', what='budget') / 1e6:.0f} MB"
    )


if __name__ == "__main__":
    main()
