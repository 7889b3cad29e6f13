"""HAProxy before the hosts, with the configuration of deploy/balancers."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from project import preflight

from ..support.deployment import adapt_haproxy
from .hosts import Host
from .network import Network, Place
from .servers import Server, accepts


@contextmanager
def running(network: Network, hosts: Sequence[Host], directory: Path) -> Iterator[str]:
    """A balancer at the gateway; its address for clients."""
    file = directory / "haproxy.cfg"
    servers = {host.name: host.host for host in hosts}
    file.write_text(adapt_haproxy(f"{network.gateway}:{network.port}", servers))
    command = ["setpriv", "--pdeathsig", "KILL", preflight.find_tool("haproxy"), "-db", "-f", str(file)]
    here = Place(network.gateway)
    with Server(here, command, directory / "haproxy.log", lambda: accepts(network.gateway, network.port)):
        yield f"http://{network.gateway}:{network.port}"
