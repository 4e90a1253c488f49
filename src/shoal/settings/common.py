"""What every process is told: where the queue is, which models there are, how to log."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta


def doc(text: str, **bounds: Any) -> Meta:
    """What a setting means, and its bounds: for help pages, `docs/settings.md` and `load`."""
    return Meta(description=text, **bounds)


class CommonSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Every process: the queue, the catalog, the log."""

    broker_url: Annotated[
        str | None,
        doc(
            "External NATS servers, `nats://host:4222,…` or `tls://…`; unset: `shoal serve` runs one."
        ),
    ] = None
    broker_credentials: Annotated[str | None, doc("Path of a NATS `.creds` file.")] = None
    broker_token: Annotated[str | None, doc("NATS token.")] = None
    broker_ca: Annotated[
        str | None, doc("CA certificate that signs the broker's TLS certificate.")
    ] = None
    broker_port: Annotated[
        int, doc("Port of the broker that `shoal serve` runs; 0 picks a free one.", ge=0, le=65535)
    ] = 0
    broker_binary: Annotated[
        str | None, doc("`nats-server` binary; unset: looked up on PATH, then beside Python.")
    ] = None
    store_dir: Annotated[
        str | None,
        doc("Where the broker keeps its streams; unset: a folder in the user's state directory."),
    ] = None
    payload_url: Annotated[
        str | None,
        doc(
            "Where items too large for the queue lie in flight: `file:///dir` (a folder that all "
            "gateways and workers share), `s3://bucket/prefix`, `gs://…` or `az://…`; unset: "
            "`shoal serve` uses a folder beside the broker's store."
        ),
    ] = None
    pool: Annotated[str, doc("The group of workers this process belongs to.", min_length=1)] = (
        "default"
    )
    catalog: Annotated[list[str], doc("More card files or folders of cards; later ones win.")] = []
    cache_dir: Annotated[
        str | None,
        doc(
            "Where model files from wheels are kept; unset: `shoal` in the user's cache directory "
            "(`XDG_CACHE_HOME`)."
        ),
    ] = None
    offline: Annotated[bool, doc("Never fetch model files; use what is cached.")] = False
    log_level: Annotated[str, doc("`debug`, `info`, `warning` or `error`.")] = "info"
    log_format: Annotated[
        str, doc("`text` for people, `json` for machines, `auto` by the terminal.")
    ] = "auto"
    otlp_endpoint: Annotated[
        str | None, doc("OpenTelemetry collector; needs the `otel` extra.")
    ] = None
