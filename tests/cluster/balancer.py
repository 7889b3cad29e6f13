"""HAProxy before the hosts, with the documented configuration."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from project import preflight

from ..support.documentation import commands
from .hosts import Host
from .network import Network, Place
from .servers import Server, accepts


def configuration(network: Network, hosts: Sequence[Host]) -> str:
    """The documented configuration, with the addresses of these hosts."""
    block = commands("backend machines")
    shown = re.findall(r"^    server .*$", block, re.MULTILINE)
    servers = [f"    server {host.name} {host.host}" for host in hosts]
    text = block.replace("\n".join(shown), "\n".join(servers))
    return text.replace("bind :8000", f"bind {network.gateway}:{network.port}") + "\n"


@contextmanager
def running(network: Network, hosts: Sequence[Host], directory: Path) -> Iterator[str]:
    """A balancer at the gateway; its address for clients."""
    file = directory / "haproxy.cfg"
    file.write_text(configuration(network, hosts))
    command = ["setpriv", "--pdeathsig", "KILL", preflight.find_tool("haproxy"), "-db", "-f", str(file)]
    here = Place(network.gateway)
    with Server(here, command, directory / "haproxy.log", lambda: accepts(network.gateway, network.port)):
        yield f"http://{network.gateway}:{network.port}"
