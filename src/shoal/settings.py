"""One settings struct per process, filled from defaults, a TOML file, the environment and flags.

Pure: the CLI reads the environment and the file and hands them over as mappings. Later layers
win. A key that no struct knows is an error that names where it stands and the nearest known key.
`docs/settings.md` is generated from the `Meta` descriptions below.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from shoal.errors import ConfigError, nearest

ENV_PREFIX = "SHOAL_"


def _doc(text: str, **bounds: Any) -> Meta:
    return Meta(description=text, **bounds)


class CommonSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Every process: the queue, the catalog, the log."""

    broker_url: Annotated[
        str | None,
        _doc(
            "External NATS servers, `nats://host:4222,…` or `tls://…`; unset: `shoal serve` runs one."
        ),
    ] = None
    broker_credentials: Annotated[str | None, _doc("Path of a NATS `.creds` file.")] = None
    broker_token: Annotated[str | None, _doc("NATS token.")] = None
    broker_ca: Annotated[
        str | None, _doc("CA certificate that signs the broker's TLS certificate.")
    ] = None
    broker_port: Annotated[
        int, _doc("Port of the broker that `shoal serve` runs; 0 picks a free one.", ge=0, le=65535)
    ] = 0
    broker_binary: Annotated[
        str | None, _doc("`nats-server` binary; unset: looked up on PATH, then beside Python.")
    ] = None
    store_dir: Annotated[
        str | None,
        _doc("Where the broker keeps its streams; unset: a folder in the user's state directory."),
    ] = None
    payload_url: Annotated[
        str | None,
        _doc(
            "Where items too large for the queue lie in flight: `file:///dir` (a folder that all "
            "gateways and workers share), `s3://bucket/prefix`, `gs://…` or `az://…`; unset: "
            "`shoal serve` uses a folder beside the broker's store."
        ),
    ] = None
    pool: Annotated[str, _doc("The group of workers this process belongs to.", min_length=1)] = (
        "default"
    )
    catalog: Annotated[list[str], _doc("More card files or folders of cards; later ones win.")] = []
    cache_dir: Annotated[
        str | None,
        _doc("Where model files from wheels are kept; unset: the user's cache directory."),
    ] = None
    offline: Annotated[bool, _doc("Never fetch model files; use what is cached.")] = False
    log_level: Annotated[str, _doc("`debug`, `info`, `warning` or `error`.")] = "info"
    log_format: Annotated[
        str, _doc("`text` for people, `json` for machines, `auto` by the terminal.")
    ] = "auto"
    otlp_endpoint: Annotated[
        str | None, _doc("OpenTelemetry collector; needs the `otel` extra.")
    ] = None


class GatewaySettings(CommonSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`shoal gateway`."""

    host: Annotated[str, _doc("Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, _doc("Port to listen on; 0 picks a free one.", ge=0, le=65535)] = 8080
    api_key: Annotated[str | None, _doc("If set, `Authorization: Bearer <key>` is required.")] = (
        None
    )
    api_keys: Annotated[
        list[str],
        _doc(
            "More keys, `name:key` each; the name is the tenant, and tenants share the devices. "
            "Several keys may have one name. `api_key` is that of the tenant without a name."
        ),
    ] = []
    cors_origins: Annotated[list[str], _doc("Origins browsers may call from; `*` for any.")] = []
    max_body_bytes: Annotated[int, _doc("Largest request body.", ge=1024)] = 64 * 1024 * 1024
    max_bodies_bytes: Annotated[
        int, _doc("Bodies of all requests in flight together; what is more gets a 429.", ge=1024)
    ] = 512 * 1024 * 1024
    max_unread_bytes: Annotated[
        int,
        _doc(
            "Answers on their way out that callers have not taken yet, all together; above that "
            "the connection that is longest at it is ended.",
            ge=1024,
        ),
    ] = 512 * 1024 * 1024
    max_items: Annotated[int, _doc("Most items in one request.", ge=1)] = 8192
    max_item_bytes: Annotated[
        int, _doc("Largest single text, as it stands in the body.", ge=16)
    ] = 16 * 1024 * 1024
    max_media_bytes: Annotated[
        int, _doc("Largest single image or audio, as it stands in the body.", ge=16)
    ] = 32 * 1024 * 1024
    payload_bytes: Annotated[
        int,
        _doc(
            "Items above this leave the queue for the payload store; at most what the broker takes "
            "in one message.",
            ge=1024,
        ),
    ] = 1_000_000
    payload_sweep_s: Annotated[
        float,
        _doc(
            "How often payloads that a crash left behind are looked for; they go once they are "
            "older than `max_timeout_s` and this.",
            gt=0,
        ),
    ] = 300.0
    unit_items: Annotated[int, _doc("Most items in one unit; larger requests are cut.", ge=1)] = 64
    unit_bytes: Annotated[int, _doc("Most bytes of items in one unit.", ge=1024)] = 64 * 1024
    window_batches: Annotated[
        float,
        _doc(
            "Work of one model on the queue, all gateways together, in batches per resident lane; "
            "the rest waits in the gateways, where tenants take turns.",
            ge=1,
        ),
    ] = 2.0
    max_queue_s: Annotated[
        float,
        _doc(
            "Predicted seconds of work per resident lane before a request's answer, above which it "
            "gets a 429.",
            gt=0,
        ),
    ] = 30.0
    max_bulk_s: Annotated[float, _doc("The same for requests of the bulk class.", gt=0)] = 600.0
    timeout_s: Annotated[
        float,
        _doc(
            "Deadline of a request that does not set `X-Request-Timeout`; `max_timeout_s` for bulk.",
            gt=0,
        ),
    ] = 60.0
    max_timeout_s: Annotated[float, _doc("Longest deadline a request may ask for.", gt=0)] = 600.0
    drain_s: Annotated[float, _doc("How long SIGTERM waits for requests in flight.", ge=0)] = 30.0
    reuse_port: Annotated[bool, _doc("Share the port with other gateways (SO_REUSEPORT).")] = False


class WorkerSettings(CommonSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`shoal worker`."""

    models: Annotated[
        list[str],
        _doc(
            "Models to load at start and keep: names in the catalog. "
            "`shoal serve` takes folders and `org/name` too."
        ),
    ] = []
    on_demand: Annotated[
        bool, _doc("Load other models of the catalog when requests for them wait.")
    ] = True
    memory_bytes: Annotated[
        int,
        _doc(
            "Bytes that the models of one lane may hold; 0: 60 % of the memory this process may use "
            "divided among CPU lanes, 90 % of its memory on a GPU; of either this worker's share.",
            ge=0,
        ),
    ] = 0
    eviction: Annotated[
        Literal["gdsf", "lru"],
        _doc(
            "Which models make room: by what their bytes save (GreedyDual-Size-Frequency), or by "
            "recency."
        ),
    ] = "gdsf"
    rss_ceiling: Annotated[
        float,
        _doc(
            "A CPU runtime above so many times `memory_bytes` is started anew, as its memory does "
            "not come back; 0: no such bound.",
            ge=0,
        ),
    ] = 1.5
    lanes: Annotated[
        list[str], _doc("Devices: `auto`, `cpu`, `cuda:0`, …; one lane each, all of one kind.")
    ] = msgspec.field(default_factory=lambda: ["auto"])
    profile: Annotated[
        str | None,
        _doc("Profile to use where a card has it, instead of the one for the kind of device."),
    ] = None
    threads: Annotated[
        int,
        _doc(
            "CPU threads per lane; 0: the cores owned less one, divided among the lanes of all "
            "`workers`.",
            ge=0,
        ),
    ] = 0
    workers: Annotated[
        int,
        _doc(
            "Workers on this machine that share its devices: `memory_bytes` and `threads` that are 0 "
            "are divided by it. `shoal serve` starts so many; one is right unless you test.",
            ge=1,
        ),
    ] = 1
    health_host: Annotated[str, _doc("Address of /healthz, /readyz and /metrics.")] = "127.0.0.1"
    health_port: Annotated[int, _doc("Their port; 0 picks a free one.", ge=0, le=65535)] = 0
    ack_wait_s: Annotated[
        float, _doc("A unit of a worker that stays silent this long goes to another.", gt=0)
    ] = 5.0
    drain_s: Annotated[float, _doc("How long SIGTERM waits for units held.", ge=0)] = 30.0
    payload_wait_s: Annotated[
        float,
        _doc("How long a unit waits for a payload that is still being uploaded.", gt=0),
    ] = 10.0
    payload_held_bytes: Annotated[
        int, _doc("Fetched payloads in memory together; one that is larger comes alone.", ge=1)
    ] = 128 * 1024 * 1024
    load_cooldown_s: Annotated[
        float, _doc("A model that failed to load is not tried again for this long.", ge=0)
    ] = 60.0


class RuntimeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`shoal runtime`."""

    kind: Annotated[str, _doc("`torch` or `fake`.")]
    socket: Annotated[str, _doc("Unix socket of the worker to connect to.")]
    device: Annotated[str, _doc("`cpu`, `cuda:0`, …")] = "cpu"
    threads: Annotated[int, _doc("CPU threads.", ge=1)] = 1


class ServeSettings(CommonSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`shoal serve`: how many gateways; it takes the settings of gateway and worker too."""

    gateways: Annotated[int, _doc("Gateway processes; more than one share the port.", ge=1)] = 1


ALL: tuple[type[msgspec.Struct], ...] = (
    CommonSettings,
    GatewaySettings,
    WorkerSettings,
    RuntimeSettings,
    ServeSettings,
)

S = TypeVar("S", bound=msgspec.Struct)


def known_keys() -> set[str]:
    """Every setting of every process."""
    return {name for struct in ALL for name in struct.__struct_fields__}


def load(struct: type[S], layers: list[tuple[str, Mapping[str, Any]]]) -> S:
    """Fill `struct` from `layers`, (where it stands, values) each, weakest first.

    A key of another process's settings is allowed and ignored, so that one file or environment
    serves all processes. Strings are converted (``"8080"`` to a number, ``"a,b"`` to a list).

    Raises:
        ConfigError: an unknown key, a value of the wrong type or out of bounds, or none where one
            is needed.
    """
    known = known_keys()
    hints = get_type_hints(struct, include_extras=True)
    merged: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for where, values in layers:
        for key, value in values.items():
            if key not in known:
                raise ConfigError(f"{where}: unknown setting '{key}'{nearest(key, known)}")
            if key not in hints or value is None:
                continue
            if isinstance(value, str) and hints[key].__origin__ == list[str]:
                value = [part.strip() for part in value.split(",") if part.strip()]
            merged[key], origin[key] = value, where
    for key, value in merged.items():
        try:
            merged[key] = msgspec.convert(value, hints[key], strict=False)
        except msgspec.ValidationError as error:
            told = f"{error}{_choices(hints[key])}"
            raise ConfigError(f"{origin[key]}: setting '{key}': {told}") from None
    _check_given(struct, merged)
    try:
        return msgspec.convert(merged, struct, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"settings of {struct.__name__}: {error}") from None


def _choices(hint: Any) -> str:
    """What a setting of few values may be; empty for all others."""
    values = get_args(hint.__origin__) if get_origin(hint.__origin__) is Literal else ()
    return f"; use one of {', '.join(values)}" if values else ""


def _check_given(struct: type[msgspec.Struct], given: Mapping[str, Any]) -> None:
    needed = [field.name for field in msgspec.structs.fields(struct) if field.required]
    missing = [name for name in needed if name not in given]
    if missing:
        ways = [f"'{n}' (--{n.replace('_', '-')} or {ENV_PREFIX}{n.upper()})" for n in missing]
        raise ConfigError(f"settings that are needed and not given: {', '.join(ways)}")


def from_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The ``SHOAL_*`` variables as a layer for `load`."""
    return {
        key.removeprefix(ENV_PREFIX).lower(): value
        for key, value in environ.items()
        if key.startswith(ENV_PREFIX)
    }
