"""The front's configuration: fills in nginx/*.conf. Does not start nginx."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from . import served
from .limits import FileLimits
from .paths import BASE_DIR, DataDirectory, RuntimeDirectory
from .waiting import Elsewhere

TEMPLATES = (
    *("nginx.conf", "site.conf", "content.conf", "waiting.conf", "elsewhere.conf", "samples.conf", "proxy.conf"),
    *("refusals.conf", "delivered.conf", "delivered_fields.conf", "bucket.conf", "served.conf", "served_maps.conf"),
)
UPLOADS_PER_ADDRESS = 4
DELIVERIES_PER_ADDRESS = 16
SPARE_SECONDS = 5
MAIN_TIMEOUT_SECONDS = 5  # a background refresh holds its client's connection as long


@dataclass(frozen=True, slots=True)
class Bucket:
    """How nginx reaches a bucket: by which name servers, and whose word it takes for who answers."""

    nameservers: Sequence[str]
    certificates: Path


@dataclass(frozen=True, slots=True)
class Samples:
    """Where nginx serves the demo's sample feeds, host and port, and the folder that has them."""

    listen: str
    root: Path


@dataclass(frozen=True, slots=True)
class Front:
    """What the templates depend on."""

    data: DataDirectory
    runtime: RuntimeDirectory
    listen: str
    allowed_hosts: Sequence[str]
    public_scheme: str
    retry_path: str
    trusted_proxies: Sequence[str]
    proxy_timeout_seconds: float
    admin_timeout_seconds: float
    upload_max_bytes: int
    delivery_max_bytes: int
    hot_max_bytes: int
    backlog: int
    limits: FileLimits
    small: bool
    is_root: bool
    traffic_log: Path | None = None
    counted: Sequence[str] = ()
    read: Sequence[str] = ()
    reader_salt: str = ""
    elsewhere: Elsewhere = field(default_factory=Elsewhere)
    public_port: int | None = None
    shelves: Path | None = None
    served: Path | None = None
    hot_seconds: float = 5
    bucket: Bucket | None = None
    samples: Samples | None = None


def rendered(front: Front) -> dict[str, str]:
    """The text of each configuration file, by name."""
    values = _values(front)
    return {name: filled_in((BASE_DIR / "nginx" / name).read_text(), values) for name in TEMPLATES}


def filled_in(template: str, values: Mapping[str, str]) -> str:
    """The template with every {{name}} replaced. Raises KeyError for a name without a value."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: values[found[1]], template)


def server_names(allowed_hosts: Sequence[str]) -> str:
    """ALLOWED_HOSTS for nginx: both write `.example.com` for a domain and all below it."""
    if "*" in allowed_hosts:
        return '"" "~."'
    return " ".join(dict.fromkeys(allowed_hosts)) or '""'


def write(front: Front) -> None:
    """Writes the files, and makes the directories that nginx expects."""
    directory = front.runtime.nginx
    directory.mkdir(mode=0o700, exist_ok=True)
    for name, text in rendered(front).items():
        (directory / name).write_text(text)


def _values(front: Front) -> dict[str, str]:
    runtime = front.runtime
    return {
        "user": "user root;" if front.is_root else "",  # root's own nginx could not enter a private directory
        "runtime": str(runtime.nginx),
        "configuration": str(runtime.nginx),
        "worker_processes": "1" if front.small else "auto",
        "files": str(front.limits.files),
        "connections": str(front.limits.connections),
        "kept_open": str(front.limits.kept_open),
        "main_socket": str(runtime.socket("main")),
        "retry_socket": str(runtime.socket("retry")),
        "front_socket": str(runtime.socket("front")),
        "listen": front.listen,
        "backlog": str(front.backlog),
        "server_names": server_names(front.allowed_hosts),
        "public_scheme": front.public_scheme,
        "retry_path": front.retry_path,
        "waiting_listen": front.elsewhere.listen or front.listen,
        "waiting_default": _waiting_default(front),
        "waiting_host": front.elsewhere.host or '""',
        "waiting_site": f"include {runtime.nginx}/elsewhere.conf;" if front.elsewhere.host else "",
        "samples_site": f"include {runtime.nginx}/samples.conf;" if front.samples else "",
        "samples_listen": front.samples.listen if front.samples else front.listen,
        "samples_root": _quoted(front.samples.root) if front.samples else '""',
        "counted": "\n        ".join(f'"~^{re.escape(beginning)}" 1;' for beginning in front.counted),
        "read": "\n        ".join(
            f'"~^{re.escape(beginning)}" " $reader_1$reader_2$reader_3";' for beginning in front.read
        ),
        "readers": "\n    ".join(_readers(front.reader_salt, digits) for digits in ("1", "2", "3")),
        "traffic_log": _traffic_log(front.traffic_log),
        "trusted_proxies": _trusted(front.trusted_proxies),
        "main_timeout": str(MAIN_TIMEOUT_SECONDS),
        # Whoever waits when the configuration is taken up anew, or sends a layer, is answered by the old workers.
        "shutdown_timeout": _seconds(max(front.proxy_timeout_seconds, front.admin_timeout_seconds) + SPARE_SECONDS),
        "proxy_timeout": _seconds(front.proxy_timeout_seconds),
        "admin_timeout": _seconds(front.admin_timeout_seconds),
        "upload_max_bytes": str(front.upload_max_bytes),
        "delivery_max_bytes": str(front.delivery_max_bytes),
        "deliveries_per_address": str(DELIVERIES_PER_ADDRESS),
        "ports": _ports(front),
        "uploads_per_address": str(UPLOADS_PER_ADDRESS),
        "hot": _quoted(front.data.hot),
        "hot_keys": "8m" if front.small else "32m",
        "hot_max_bytes": str(front.hot_max_bytes),
        "static_parent": _quoted(front.data.static.parent),
        "shelves": _quoted(front.shelves or front.data.held, "/"),
        **served.values(front.hot_seconds),
        "served_root": _quoted(front.served or front.data.blobs),
        "served_maps": f"include {runtime.nginx}/served_maps.conf;" if front.served else "",
        "served_location": f"include {runtime.nginx}/served.conf;" if front.served else "",
        "bucket_location": f"include {runtime.nginx}/bucket.conf;" if front.bucket else "",
        "bucket_trust": _trust(front.bucket) if front.bucket else "",
    }


def _readers(salt: str, place: str) -> str:
    """Two digits of the number that stands for a reader."""
    digits = " ".join(f"1% {number:02};" for number in range(99))
    return f'split_clients "{salt}{place}$network$http_user_agent" $reader_{place} {{ {digits} * 99; }}'


def _ports(front: Front) -> str:
    """The ports under which clients may know the site, as alternatives of a regular expression."""
    ports = (front.listen.rpartition(":")[2], front.public_port)
    return "|".join(dict.fromkeys(str(port) for port in ports if port))


def _waiting_default(front: Front) -> str:
    """Whoever asks there for another host is refused, as everywhere."""
    listen = front.elsewhere.listen
    return f"listen {listen} default_server backlog={front.backlog};" if listen else ""


def _traffic_log(log: Path | None) -> str:
    return f"access_log {_quoted(log)} traffic buffer=64k flush=1s if=$is_counted;" if log else ""


def _trusted(proxies: Sequence[str]) -> str:
    lines = [f"set_real_ip_from {proxy};" for proxy in proxies]
    return "\n".join([*lines, "real_ip_header X-Forwarded-For;", "real_ip_recursive on;"]) if lines else ""


def _seconds(value: float) -> str:
    return f"{value:.0f}"


def _trust(bucket: Bucket) -> str:
    resolver = [f"resolver {' '.join(bucket.nameservers)};", "resolver_timeout 3s;"] if bucket.nameservers else []
    trust = f"proxy_ssl_trusted_certificate {_quoted(bucket.certificates)};"
    return "\n    ".join(
        [*resolver, "proxy_ssl_server_name on;", "proxy_ssl_verify on;", "proxy_ssl_verify_depth 4;", trust]
    )


def _quoted(path: Path, end: str = "") -> str:
    return served.quoted(f"{path}{end}")
