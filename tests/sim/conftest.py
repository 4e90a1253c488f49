"""The fixtures of a real nats-server, for what is compared with one."""

from tests.broker.conftest import broker, connect, connection, puller, recorder, settings

__all__ = ["broker", "connect", "connection", "puller", "recorder", "settings"]
