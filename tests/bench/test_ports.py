import socket

from shoal.bench.ports import free_port, free_ports


def test_ports_in_a_row_are_free_and_none_that_an_outgoing_connection_gets() -> None:
    ports = free_ports(4)
    assert len(ports) == 4 and max(ports) < 32768
    for port in (*ports, free_port()):
        with socket.socket() as one:
            one.bind(("127.0.0.1", port))
