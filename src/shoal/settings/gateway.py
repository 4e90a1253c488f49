"""What a gateway is told."""

from __future__ import annotations

from typing import Annotated

from shoal.settings.common import CommonSettings, doc


class GatewaySettings(CommonSettings, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`shoal gateway`."""

    host: Annotated[str, doc("Address to listen on.")] = "127.0.0.1"
    port: Annotated[int, doc("Port to listen on; 0 picks a free one.", ge=0, le=65535)] = 8080
    api_key: Annotated[str | None, doc("If set, `Authorization: Bearer <key>` is required.")] = None
    api_keys: Annotated[
        list[str],
        doc(
            "More keys, `name:key` each; the name is the tenant, and tenants share the devices. "
            "Several keys may have one name. `api_key` is that of the tenant without a name."
        ),
    ] = []
    cors_origins: Annotated[list[str], doc("Origins browsers may call from; `*` for any.")] = []
    max_body_bytes: Annotated[int, doc("Largest request body.", ge=1024)] = 64 * 1024 * 1024
    max_bodies_bytes: Annotated[
        int, doc("Bodies of all requests in flight together; what is more gets a 429.", ge=1024)
    ] = 512 * 1024 * 1024
    max_unread_bytes: Annotated[
        int,
        doc(
            "Answers on their way out that callers have not taken yet, all together; above that "
            "the connection that is longest at it is ended.",
            ge=1024,
        ),
    ] = 512 * 1024 * 1024
    max_stream_bytes: Annotated[
        int,
        doc(
            "What is held of a generated text for a caller that reads its stream more slowly; above "
            "that the stream ends with an error.",
            ge=1024,
        ),
    ] = 1024 * 1024
    stream_beat_s: Annotated[
        float,
        doc(
            "A stream that was silent for so long sends a comment, so that nobody between takes it "
            "for dead; and a request that fails sooner is answered with the error's own status.",
            gt=0,
        ),
    ] = 10.0
    max_items: Annotated[int, doc("Most items in one request.", ge=1)] = 8192
    max_item_bytes: Annotated[int, doc("Largest single text, as it stands in the body.", ge=16)] = (
        16 * 1024 * 1024
    )
    max_media_bytes: Annotated[
        int, doc("Largest single image or audio, as it stands in the body.", ge=16)
    ] = 32 * 1024 * 1024
    payload_bytes: Annotated[
        int,
        doc(
            "Items above this leave the queue for the payload store; at most what the broker takes "
            "in one message.",
            ge=1024,
        ),
    ] = 1_000_000
    payload_sweep_s: Annotated[
        float,
        doc(
            "How often payloads that a crash left behind are looked for; they go once they are "
            "older than `max_timeout_s` and this.",
            gt=0,
        ),
    ] = 300.0
    unit_items: Annotated[int, doc("Most items in one unit; larger requests are cut.", ge=1)] = 64
    unit_bytes: Annotated[int, doc("Most bytes of items in one unit.", ge=1024)] = 64 * 1024
    window_batches: Annotated[
        float,
        doc(
            "Work of one model on the queue, all gateways together, in batches per resident lane; "
            "the rest waits in the gateways, where tenants take turns.",
            ge=1,
        ),
    ] = 1.5
    max_queue_s: Annotated[
        float,
        doc(
            "Predicted seconds of work per resident lane before a request's answer, above which it "
            "gets a 429; but `window_batches` are let in, which of a model that generates may be more.",
            gt=0,
        ),
    ] = 30.0
    max_bulk_s: Annotated[float, doc("The same for requests of the bulk class.", gt=0)] = 600.0
    worker_wait_s: Annotated[
        float,
        doc(
            "Requests wait for a worker where none lives; once there was none for so long, new ones get a "
            "503 at once. More than a worker takes to start; much more where waiting work is what "
            "starts them.",
            ge=0,
        ),
    ] = 30.0
    timeout_s: Annotated[
        float,
        doc(
            "Deadline of a request that does not set `X-Request-Timeout`; `max_timeout_s` for bulk.",
            gt=0,
        ),
    ] = 60.0
    generate_timeout_s: Annotated[
        float, doc("The same for texts that are generated, from the first to the last token.", gt=0)
    ] = 300.0
    max_timeout_s: Annotated[float, doc("Longest deadline a request may ask for.", gt=0)] = 600.0
    drain_s: Annotated[float, doc("How long SIGTERM waits for requests in flight.", ge=0)] = 30.0
    reuse_port: Annotated[bool, doc("Share the port with other gateways (SO_REUSEPORT).")] = False
