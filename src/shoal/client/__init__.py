"""Talks to a gateway: `Client` for blocking code, `AsyncClient` for asyncio."""

from shoal.client.aio import AsyncClient
from shoal.client.api import Model
from shoal.client.encoding import Limits
from shoal.client.result import Encoded
from shoal.client.sync import Client

__all__ = ["AsyncClient", "Client", "Encoded", "Limits", "Model"]
