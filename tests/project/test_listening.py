"""What nginx is given to listen at."""

import os
import socket

from project import listening
from tests.flows.stack import free_port


def given(value: str) -> list[socket.socket]:
    """The sockets, which end with the test."""
    return [socket.socket(fileno=int(descriptor)) for descriptor in value.split(";")[:-1]]


def test_connections_are_told_not_to_delay() -> None:
    [listener] = given(listening.opened([f"127.0.0.1:{free_port()}"]))
    with listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_nginx_inherits_sockets_that_do_not_block() -> None:
    [listener] = given(listening.opened([f"127.0.0.1:{free_port()}"]))
    with listener:
        assert os.get_inheritable(listener.fileno())
        assert not os.get_blocking(listener.fileno())


def test_names_and_what_is_taken_are_left_to_nginx() -> None:
    [listener] = given(listening.opened([f"127.0.0.1:{free_port()}"]))
    with listener:
        taken = f"127.0.0.1:{listener.getsockname()[1]}"
        assert listening.opened([taken, "localhost:8000"], patience_seconds=0) == ""
