"""How a command asks the broker: which one, for how long, and that it lets go of it again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from shoal.cli.context import Given, with_broker
from shoal.settings import CommonSettings

if TYPE_CHECKING:
    from shoal.broker.connection import Connection

T = TypeVar("T")

#: The settings that say where the broker is and who asks.
BROKER = ("broker_url", "broker_credentials", "broker_token", "broker_ca")
#: A broker in reach answers in milliseconds.
ANSWER_S = 2.0


def ask(given: Given, name: str, work: Callable[[Connection], Awaitable[T]]) -> T:
    """What `work` gives on a connection called `name`, to the broker named or that of this machine.

    Raises:
        ConfigError: no broker is named and none runs here.
        Unavailable, BrokerError: it is not there, or refuses us.
    """
    return asyncio.run(_ask(with_broker(given.load(CommonSettings)), name, work))


async def _ask(
    settings: CommonSettings, name: str, work: Callable[[Connection], Awaitable[T]]
) -> T:
    from shoal.broker.connection import Connection

    connection = await Connection.open(settings, name, wait_s=ANSWER_S)
    try:
        return await work(connection)
    finally:
        await connection.close()
