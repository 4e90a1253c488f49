"""Replaying a dead letter: its unit goes on the queue again, and the answer is waited for here.

It stands in for a gateway of one request: says that work waits, so that a worker loads the model,
and acks the answer. It decides when a replay went well; what becomes of the letter it does not know.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator

import msgspec

from shoal.broker.connection import Connection
from shoal.broker.letters import Kept
from shoal.errors import InvalidRequest, ProtocolError, Unavailable
from shoal.gateway.replies import PartJoiner
from shoal.wire import subjects
from shoal.wire.codec import encode
from shoal.wire.queue import Cancel, DeadLetter, GatewayPulse, Reply, ReplyPart, Unit, decode_queue

#: Workers forget what a gateway said after some seconds; gateways say it twice a second.
PULSE_S = 0.5
#: What one unit is said to cost: enough to have its model loaded.
DEMAND_S = 1.0


class Outcome(msgspec.Struct, frozen=True):
    """How the replay of letter `id` ended: `code` and `message` are of the first error, if any."""

    id: int
    answered: bool
    request: str
    code: str | None = None
    message: str = ""


def unit_of(letter: DeadLetter) -> Unit:
    """The letter's unit as it was. Raises `InvalidRequest` if it has none that can be read."""
    try:
        unit = decode_queue(letter.data)
    except ProtocolError as error:
        raise InvalidRequest(f"its content cannot be read: {error.message}") from None
    if not isinstance(unit, Unit):
        raise InvalidRequest("its content is no unit")
    return unit


def renewed(letter: DeadLetter, name: str, timeout_s: float) -> Unit:
    """The items at fault as a unit of their own, for whoever listens as `name`.

    Raises `InvalidRequest` as `unit_of`, or where the letter names an item that its unit has not.
    """
    unit = unit_of(letter)
    places = letter.items or range(len(unit.items))
    if unknown := [place for place in places if not 0 <= place < len(unit.items)]:
        raise InvalidRequest(
            f"it names item {unknown[0]} as at fault, and its unit has {len(unit.items)}: it was "
            "damaged, or is of another version; look at it with `shoal dead show --content`, or "
            "drop it"
        )
    return msgspec.structs.replace(
        unit,
        id=f"{name}.0",
        request=name,
        items=[unit.items[place] for place in places],
        payloads={n: unit.payloads[p] for n, p in enumerate(places) if p in unit.payloads},
        budget_s=timeout_s,
        reply_to=subjects.reply_subject(name),
        trace=None,
    )


async def replay(connection: Connection, kept: Kept, timeout_s: float) -> Outcome:
    """Send the letter's items again and wait for the answer.

    Raises:
        InvalidRequest: nothing in the letter can be sent.
        Overloaded, Unavailable: the broker did not take it.
    """
    name = f"replay-{kept.id}-{secrets.token_hex(4)}"
    unit = renewed(kept.letter, name, timeout_s)
    subject = subjects.work_subject(unit.klass, kept.pool, unit.model)
    async with _listening(connection, unit) as answer, _demanding(connection, kept.pool, unit):
        await connection.publish_unit(subject, encode(unit), timeout_s, unit.id)
        try:
            reply = await asyncio.wait_for(answer, timeout_s)
        except TimeoutError:
            connection.publish(subjects.CANCELS, encode(Cancel([name])))
            message = f"no answer within {timeout_s:g} s; is a worker of pool '{kept.pool}' up?"
            return Outcome(kept.id, False, name, "deadline_exceeded", message)
    errors = [reply.error] if reply.error is not None else list(reply.errors.values())
    if errors:
        return Outcome(kept.id, False, name, errors[0].code, errors[0].message)
    return Outcome(kept.id, True, name)


@contextlib.asynccontextmanager
async def _listening(connection: Connection, unit: Unit) -> AsyncIterator[asyncio.Future[Reply]]:
    answer: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
    joiner = PartJoiner()

    def heard(data: bytes, inbox: str, status: str | None, subject: str) -> None:
        message = decode_queue(data)
        if isinstance(message, ReplyPart):
            whole = joiner.add(message)
            message = message if whole is None else decode_queue(whole)
        if isinstance(message, Reply) and message.unit == unit.id:
            with contextlib.suppress(Unavailable):
                connection.ack(message.ack, inbox)
            if not answer.done():
                answer.set_result(message)

    subscription = connection.subscribe(unit.reply_to, heard)
    try:
        yield answer
    finally:
        with contextlib.suppress(Unavailable):
            await connection.flush()  # the ack is with the broker before we are gone
        connection.unsubscribe(subscription)


@contextlib.asynccontextmanager
async def _demanding(connection: Connection, pool: str, unit: Unit) -> AsyncIterator[None]:
    """Say that work waits for the unit's model, until that is over."""

    def say(seconds: dict[str, float]) -> None:
        pulse = GatewayPulse(unit.request, pool, seconds, seconds)
        with contextlib.suppress(Unavailable):
            connection.publish(f"{subjects.GATEWAY_PULSES}.{unit.request}", encode(pulse))

    async def keep_saying() -> None:
        while True:
            say({unit.model: DEMAND_S})
            await asyncio.sleep(PULSE_S)

    task = asyncio.create_task(keep_saying())
    try:
        yield
    finally:
        task.cancel()
        say({})
