"""What a worker is told, and what it tells the runtimes that it starts."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from shoal.settings.common import CommonSettings, doc


class WorkerSettings(CommonSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`shoal worker`."""

    models: Annotated[
        list[str],
        doc(
            "Models to load at start and keep: names in the catalog. "
            "`shoal serve` takes folders and `org/name` too."
        ),
    ] = []
    on_demand: Annotated[
        bool, doc("Load other models of the catalog when requests for them wait.")
    ] = True
    memory_bytes: Annotated[
        int,
        doc(
            "Bytes that the models of one lane may hold; 0: 60 % of the memory this process may use "
            "divided among CPU lanes, 90 % of its memory on a GPU; of either this worker's share.",
            ge=0,
        ),
    ] = 0
    eviction: Annotated[
        Literal["gdsf", "lru"],
        doc(
            "Which models make room: by what their bytes save (GreedyDual-Size-Frequency), or by "
            "recency."
        ),
    ] = "gdsf"
    rss_ceiling: Annotated[
        float,
        doc(
            "A CPU runtime above so many times `memory_bytes` is started anew, as its memory does "
            "not come back; 0: no such bound.",
            ge=0,
        ),
    ] = 1.5
    lanes: Annotated[
        list[str], doc("Devices: `auto`, `cpu`, `cuda:0`, …; one lane each, all of one kind.")
    ] = msgspec.field(default_factory=lambda: ["auto"])
    profile: Annotated[
        str | None,
        doc("Profile to use where a card has it, instead of the one for the kind of device."),
    ] = None
    threads: Annotated[
        int,
        doc(
            "CPU threads per lane; 0: the cores owned less one, divided among the lanes of all "
            "`workers`.",
            ge=0,
        ),
    ] = 0
    workers: Annotated[
        int,
        doc(
            "Workers on this machine that share its devices: `memory_bytes` and `threads` that are 0 "
            "are divided by it. `shoal serve` starts so many; one is right unless you test.",
            ge=1,
        ),
    ] = 1
    health_host: Annotated[str, doc("Address of /healthz, /readyz and /metrics.")] = "127.0.0.1"
    health_port: Annotated[int, doc("Their port; 0 picks a free one.", ge=0, le=65535)] = 0
    ack_wait_s: Annotated[
        float, doc("A unit of a worker that stays silent this long goes to another.", gt=0)
    ] = 5.0
    drain_s: Annotated[float, doc("How long SIGTERM waits for units held.", ge=0)] = 30.0
    payload_wait_s: Annotated[
        float,
        doc("How long a unit waits for a payload that is still being uploaded.", gt=0),
    ] = 10.0
    payload_held_bytes: Annotated[
        int, doc("Fetched payloads in memory together; one that is larger comes alone.", ge=1)
    ] = 128 * 1024 * 1024
    media_pixels: Annotated[
        int,
        doc(
            "Pixels of an image at most, told before it is decoded; also of what it grows to.", ge=1
        ),
    ] = 50_000_000
    media_images: Annotated[int, doc("Images of a conversation at most.", ge=1)] = 32
    media_pages: Annotated[int, doc("Pages of a PDF at most.", ge=1)] = 100
    media_seconds: Annotated[float, doc("Seconds of a sound at most.", gt=0)] = 1800.0
    load_cooldown_s: Annotated[
        float,
        doc(
            "A model that failed to load is not tried again for this long; twice as long after each "
            "further try, up to ten minutes.",
            ge=0,
        ),
    ] = 60.0


class RuntimeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`shoal runtime`."""

    kind: Annotated[str, doc("`torch`, `candle`, `onnx`, `gguf`, `sglang` or `fake`.")]
    socket: Annotated[str, doc("Unix socket of the worker to connect to.")]
    device: Annotated[str, doc("`cpu`, `cuda:0`, …")] = "cpu"
    threads: Annotated[int, doc("CPU threads.", ge=1)] = 1
