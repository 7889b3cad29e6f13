"""Where clients wait when it is not at the site's own address: another host, or a port of its own."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from django.http.request import validate_host

from .starting import StartError

_LISTEN = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):([0-9]{1,5})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """`host` is the name that nginx answers to there, empty when the site's own names do.

    `listen` is the address and port that it listens on in addition, empty for none.
    """

    host: str = ""
    listen: str = ""

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.listen.rpartition(":")
        return host, int(port)


def elsewhere(server: str, listen: str, allowed_hosts: Sequence[str], own_listen: str) -> Elsewhere:
    """From RETRY_AFTER_SERVER and RETRY_LISTEN. Raises StartError when they contradict each other."""
    host = urlsplit(server).hostname or ""
    name = f"[{host}]" if ":" in host else host
    if not listen:
        return Elsewhere("" if not name or validate_host(name, allowed_hosts) else name)
    found = _LISTEN.fullmatch(listen)
    if not found or not 0 < int(found[2]) < 65536:
        raise StartError(f"RETRY_LISTEN is {listen!r}; it must be an address and a port, as 127.0.0.1:8001.")
    if not name:
        raise StartError("RETRY_LISTEN is set, but RETRY_AFTER_SERVER is a path, which is answered on PORT.")
    if listen == own_listen:
        raise StartError(f"RETRY_LISTEN is {listen}, where the site listens already. Leave it out.")
    return Elsewhere(name, listen)
