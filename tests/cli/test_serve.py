import socket

import pytest

from shoal.cli.serve import reserved_port
from shoal.errors import ConfigError


def test_a_reserved_port_is_held_and_can_be_shared() -> None:
    with reserved_port("127.0.0.1", 0) as port:
        with pytest.raises(OSError), socket.socket() as stranger:
            stranger.bind(("127.0.0.1", port))
        with socket.socket() as gateway:
            gateway.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            gateway.bind(("127.0.0.1", port))
            gateway.listen()
            socket.create_connection(("127.0.0.1", port), 5).close()
            gateway.accept()[0].close()


def test_a_taken_port_is_told() -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with (
            pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}: Address already"),
            reserved_port("127.0.0.1", port),
        ):
            pass


def test_an_address_of_another_machine() -> None:
    with pytest.raises(ConfigError, match="--host"), reserved_port("192.0.2.1", 0):
        pass
