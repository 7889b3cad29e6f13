"""The sockets that nginx is to listen at, opened for it, since it cannot be told to send without delay.

nginx gathers an answer's head and file in whole segments (`tcp_nopush`) and does not switch Nagle's algorithm off
beside it. Over the loopback interface, whose segments take 64 KB, the end of an answer between one and two segments
then waits for a delayed acknowledgement: 40 ms. Connections inherit TCP_NODELAY from the socket that accepts them.
"""

import socket
import time
from collections.abc import Sequence
from ipaddress import ip_address

VARIABLE = "NGINX"
"""In which nginx looks for the descriptors that it takes over, each followed by a semicolon."""

PATIENCE_SECONDS, PAUSE_SECONDS = 2.0, 0.02
"""The workers of a killed nginx may need a moment to let an address go."""


def opened(addresses: Sequence[str], patience_seconds: float = PATIENCE_SECONDS) -> str:
    """The value of VARIABLE. What is a name, or is not free in time, is left out: nginx opens it, or says why not."""
    until = time.monotonic() + patience_seconds
    found = [_opened(address, until) for address in addresses]
    return "".join(f"{listener.detach()};" for listener in found if listener)


def _opened(address: str, until: float) -> socket.socket | None:
    host, _, port = address.rpartition(":")
    try:
        version = ip_address(host.strip("[]")).version
    except ValueError:
        return None
    while True:
        try:
            return _listener(socket.AF_INET6 if version == 6 else socket.AF_INET, host.strip("[]"), int(port))
        except OSError:
            if time.monotonic() >= until:
                return None
            time.sleep(PAUSE_SECONDS)


def _listener(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
    """As nginx opens its own, which sets the length of the queue. Raises OSError."""
    listener = socket.socket(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((host, port))
        listener.listen()
        listener.setblocking(False)
        listener.set_inheritable(True)
    except OSError:
        listener.close()
        raise
    return listener
