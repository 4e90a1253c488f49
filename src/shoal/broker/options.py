"""How to connect: URLs, who we are and whom we trust, from settings to nats-py's options."""

from __future__ import annotations

import importlib.util
import re
import ssl
from pathlib import Path
from typing import Any

from shoal.errors import ConfigError, reason
from shoal.settings import CommonSettings
from shoal.spelling import nearest

_USER = re.compile(r"^([a-z]+://)?[^/]*@")
_SCHEMES = ("nats", "tls", "ws", "wss")
_CONNECT_S = 2
_RECONNECT_S = 0.25
# A half-open connection is noticed after three of these (nats-py's default is two minutes each).
_PING_S = 5
_DRAIN_S = 2


def urls(settings: CommonSettings) -> list[str]:
    """The servers. Raises `ConfigError` if there are none, or one is of another kind."""
    found = [url.strip() for url in (settings.broker_url or "").split(",") if url.strip()]
    if not found:
        raise ConfigError(
            "broker_url is not set: point it at a NATS server (nats://host:4222), "
            "or use `shoal serve`, which runs one"
        )
    for url in found:
        scheme, separator, _ = url.partition("://")
        if separator and scheme not in _SCHEMES:
            raise ConfigError(
                f"broker_url '{redacted([url])}' names no NATS server: use nats://host:4222 or "
                f"tls://host:4222{nearest(scheme, _SCHEMES)}"
            )
    return found


def redacted(urls: list[str]) -> str:
    """`urls` without user and password."""
    return ", ".join(_USER.sub(r"\1", url) for url in urls)


def options(settings: CommonSettings) -> dict[str, Any]:
    """Keyword arguments of nats-py's `connect`. Raises `ConfigError` for unreadable files."""
    chosen: dict[str, Any] = {
        "max_reconnect_attempts": -1,
        "connect_timeout": _CONNECT_S,
        "reconnect_time_wait": _RECONNECT_S,
        "ping_interval": _PING_S,
        "drain_timeout": _DRAIN_S,
    }
    if settings.broker_token:
        chosen["token"] = settings.broker_token
    if settings.broker_credentials:
        chosen["user_credentials"] = _credentials(settings.broker_credentials)
    if settings.broker_ca or any(url.startswith(("tls://", "wss://")) for url in urls(settings)):
        chosen["tls"] = _tls(settings.broker_ca)
    return chosen


def _credentials(path: str) -> str:
    try:
        Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"broker_credentials: cannot read {path}: {error.strerror}") from None
    if importlib.util.find_spec("nkeys") is None:
        raise ConfigError(
            "broker_credentials needs the nkeys package: pip install 'nats-py[nkeys]'"
        )
    return path


def _tls(ca: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise ConfigError(f"broker_ca: cannot use {ca}: {reason(error)}") from None
