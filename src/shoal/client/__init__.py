"""Talks to a gateway: `Client` for blocking code, `AsyncClient` for asyncio."""

from shoal.client.aio import AsyncClient
from shoal.client.encode import Encoded
from shoal.client.extract import Extracted
from shoal.client.generate import Generated
from shoal.client.items import Limits
from shoal.client.models import Model
from shoal.client.score import Scored
from shoal.client.sync import Client
from shoal.wire.objects import Entity, Extraction, Generation, Label, Segment, ToolCall
from shoal.wire.outputs import Sparse

__all__ = [
    "AsyncClient",
    "Client",
    "Encoded",
    "Entity",
    "Extracted",
    "Extraction",
    "Generated",
    "Generation",
    "Label",
    "Limits",
    "Model",
    "Scored",
    "Segment",
    "Sparse",
    "ToolCall",
]
