"""What models can be computed with here: a check for each kind of runtime, and one of what is to be served.

Whether a kind can run, and which one a model runs in, is asked where the worker asks it, so that this
command, `--explain` and the errors of callers say one thing. torch is asked in a process of its own:
this one must stay light.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial

from shoal.catalog.card import Card
from shoal.cli.finding import Check, Finding, Verdict
from shoal.errors import ShoalError, SourceError
from shoal.installing import install
from shoal.runtimes.packages import NEEDED, lacking, missing, versions
from shoal.settings import WorkerSettings

TORCH_IMPORT_S = 120
#: Kind -> what no model gives without it. Candle stands behind other kinds, but for cards that ask for it.
WITHOUT = {
    "torch": "no images but OCR, no speech, no encoders but BERT, DistilBERT and RoBERTa",
    "candle": "cards that say `runtime: candle` need it",
    "onnx": "no models that read pictures, no 8 bits",
    "gguf": "no texts by llama.cpp",
}

_ASK_TORCH = """
import json, torch
gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
print(json.dumps({"version": torch.__version__, "threads": torch.get_num_threads(), "gpus": gpus}))
"""


def kinds() -> Iterator[tuple[str, Check]]:
    """A check for each kind that needs packages."""
    return ((kind, partial(_kind, kind)) for kind in NEEDED)


def _kind(kind: str) -> Finding:
    """That its packages are there; of torch, that it imports, and the devices it sees."""
    if (module := lacking(kind)) is not None:
        return Finding(
            kind, _absent(kind), f"{module} not installed: {WITHOUT[kind]}", install(kind)
        )
    if kind == "torch":
        return _torch()
    return Finding(kind, "ok", versions(kind))


def _absent(kind: str) -> Verdict:
    """torch is needed by who has no other runtime; Candle by nobody who does not ask for it."""
    if kind == "candle":
        return "ok"
    others = any(missing(other) is None for other in NEEDED)
    return "fail" if kind == "torch" and not others else "warn"


def _torch() -> Finding:
    try:
        done = subprocess.run(
            [sys.executable, "-c", _ASK_TORCH],
            capture_output=True,
            text=True,
            timeout=TORCH_IMPORT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Finding("torch", "fail", f"import took over {TORCH_IMPORT_S} s", "look at the disk")
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["it died without a word"])[-1]
        return Finding("torch", "fail", f"import failed: {last}", "install torch anew")
    told = json.loads(done.stdout.splitlines()[-1])
    devices = ", ".join(told["gpus"]) or "cpu only"
    return Finding("torch", "ok", f"{told['version']}, {devices}, {told['threads']} threads")


def runs(settings: WorkerSettings) -> Finding:
    """Whether what is to be served can run here, and how much of the catalog can."""
    from shoal.catalog.infer import card_for
    from shoal.catalog.resolve import Catalog
    from shoal.worker.devices import lanes_of

    try:
        catalog, lane = Catalog.load(settings.catalog), lanes_of(settings)[0]  # all are of one kind
    except ShoalError as error:
        return Finding("runs", "warn", f"not looked at: {error.message}", "correct that first")

    def lacks(card: Card) -> str | None:
        kind = lane.profile(card).runtime
        return None if missing(kind) is None else kind

    cards = catalog.cards()
    served = [card for card in cards if card.min_replicas]
    for spec in settings.models:
        try:
            served.append(card_for(spec, catalog, cache_dir=settings.cache_dir, offline=True))
        except SourceError:  # its files are not here, which `models` tells
            continue
    others = Counter(kind for card in cards if (kind := lacks(card)) is not None)
    seen = f"{len(cards) - others.total()} of {len(cards)} of the catalog can run on {lane.device}"
    seen += "".join(f"; {count} need {kind}" for kind, count in others.items())
    stuck = {card.name: kind for card in served if (kind := lacks(card)) is not None}
    if not stuck:
        return Finding("runs", "ok", seen)
    seen += f"; those to be served that cannot: {', '.join(stuck)}"
    return Finding(
        "runs", "fail", seen, "; ".join(install(kind) for kind in dict.fromkeys(stuck.values()))
    )
