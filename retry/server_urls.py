"""The URLs of Redis servers: of one, of Sentinels or of a Cluster. Opens no connection. PURE."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

SENTINEL, CLUSTER = "redis+sentinel", "rediscluster"


@dataclass(frozen=True, slots=True)
class ServerUrl:
    """The parts of a URL of Sentinels or of a Cluster. Raises ValueError if one is missing."""

    scheme: str
    nodes: tuple[tuple[str, int], ...]
    service: str
    login: dict[str, Any]
    database: int
    sentinel_login: dict[str, Any]

    @classmethod
    def parse(cls, url: str) -> "ServerUrl":
        parts = urlsplit(url)
        if parts.scheme not in {SENTINEL, CLUSTER}:
            raise ValueError(f"{parts.scheme}:// is unknown: Sentinels and Clusters are asked without TLS")
        service, _, database = parts.path.strip("/").partition("/")
        nodes = tuple(_parse_node(node, parts) for node in parts.netloc.rpartition("@")[2].split(","))
        if (parts.scheme == SENTINEL) != bool(service) or not (database or "0").isdecimal():
            raise ValueError(f"{SENTINEL}://host:port,…/service[/db] and {CLUSTER}://host:port,… are known, not this")
        given = {"username": parts.username, "password": parts.password}
        login = {name: unquote(value) for name, value in given.items() if value}
        asked = parse_qs(parts.query).get("sentinel_password")
        return cls(parts.scheme, nodes, service, login, int(database or 0), {"password": asked[0]} if asked else {})


def _parse_node(node: str, parts: SplitResult) -> tuple[str, int]:
    host, _, port = node.rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError(f"{parts.scheme}://: “{node}” must be host:port")
    return host.strip("[]"), int(port)


def is_cluster(url: str) -> bool:
    return url.startswith(f"{CLUSTER}:")
