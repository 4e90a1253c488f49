"""Bodies of other APIs: JSON alone."""

from __future__ import annotations

from typing import Any

from shoal.errors import UnsupportedMediaType
from shoal.gateway.asking import read_body
from shoal.gateway.body import BodyDecoder
from shoal.gateway.headers import JSON, media_type
from shoal.gateway.request import Request
from shoal.gateway.service import Gateway


async def read_json(
    gateway: Gateway, request: Request, decoder: BodyDecoder, default_s: float | None = None
) -> Any:
    """The body as the decoder's struct. Raises as `read_body` and `BodyDecoder.decode`."""
    if media_type(request.headers.get(b"content-type", JSON)) != JSON:
        raise UnsupportedMediaType("this route takes application/json", param="Content-Type")
    return decoder.decode(await read_body(gateway, request, default_s), "json")
