"""The front's configuration: fills in nginx/*.conf. Does not start nginx.

nginx serves some mirrored files straight from the storage. Their header fields are those that main sends,
except the ones that nginx knows by itself.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from django.http.request import validate_host

from resources.disk.shares import UPLOADS_AT_A_TIME, DiskShares
from resources.mirror.public_files import (
    ADDRESS_PREFIX,
    BY_DIGEST,
    DIRECT_ENDINGS,
    NAME_DIGITS,
    delivery_fields,
    delivery_headers,
)
from retry import headers, responses

from .paths import BASE_DIR, DataDirectory, RuntimeDirectory
from .preflight import FileLimits, StartError

NGINX_TEMPLATES = (
    *("nginx.conf", "site.conf", "content.conf", "texts.conf", "waiting.conf", "elsewhere.conf", "samples.conf"),
    *(
        "proxy.conf",
        "refusals.conf",
        "delivered.conf",
        "delivered_fields.conf",
        "bucket.conf",
        "served.conf",
        "served_maps.conf",
    ),
    *("conditions.conf", "files.conf", "static.conf", "problem.conf", "problem_maps.conf", "ready.conf"),
)
MAX_LOGGED_CHARACTERS = 200
"""The characters of an argument in the traffic log. Content with longer ones has no popularity."""

UPLOADS_PER_ADDRESS = 4
DELIVERIES_PER_ADDRESS = 16
BODIES_AT_A_TIME = 64
"""Bodies that nginx writes to a bounded disk, of 10 KB and more."""
SHUTDOWN_SPARE_SECONDS = 5
MAIN_TIMEOUT_SECONDS = 5  # a background refresh holds its client's connection as long
NEXT_UPSTREAM_SECONDS = 4
"""A request goes to another machine within this time: after a connection that failed, not after a slow answer."""
MAX_FAILS, FAIL_SECONDS = 5, 3
"""A machine that failed so often in this time is left out for as long."""
KEPT_CONNECTIONS, KEPT_SECONDS = 16, 60
"""Idle connections to other machines, for each worker of nginx. The instances keep theirs for longer."""

FILES_HOST = "files.invalid"
"""The name by which nginx asks itself for files. Requests from outside cannot reach it, whatever they name."""

FILE_CACHE_STATUS = "nginx; hit; detail=file"
"""The Cache-Status of mirrored files that nginx serves straight from the storage."""

_DIGEST_VARIABLE, _NAME_VARIABLE = "$served_digest", "$served_name"  # the name is a beginning of the digest
_NOT_SHARED = frozenset({"Content-Type", "Last-Modified", "Accept-Ranges", "Cache-Status"})  # or from nginx itself
_OF_TYPES = {"Content-Disposition": "$served_disposition"}
_ALWAYS_COMPRESSED = "text/html"  # nginx warns if it is told
_ANY_TIME = datetime(1970, 1, 1, tzinfo=UTC)

_LISTEN = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+):([0-9]{1,5})", re.ASCII)


@dataclass(frozen=True, slots=True)
class WaitingSite:
    """`host` is the name that nginx answers to there, empty for the site's own names.

    `listen` is the additional address and port that nginx listens on, empty for none.
    """

    host: str = ""
    listen: str = ""

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.listen.rpartition(":")
        return host, int(port)


def read_waiting_site(server: str, listen: str, allowed_hosts: Sequence[str], own_listen: str) -> WaitingSite:
    """Reads RETRY_AFTER_SERVER and RETRY_LISTEN. Raises StartError if they contradict each other."""
    host = urlsplit(server).hostname or ""
    name = f"[{host}]" if ":" in host else host
    if not listen:
        return WaitingSite("" if not name or validate_host(name, allowed_hosts) else name)
    if not is_address(listen):
        raise StartError(f"RETRY_LISTEN is {listen!r}; it must be an address and a port, as 127.0.0.1:8001.")
    if not name:
        raise StartError("RETRY_LISTEN is set, but RETRY_AFTER_SERVER is a path, which is answered on PORT.")
    if listen == own_listen:
        raise StartError(f"RETRY_LISTEN is {listen}, where the site listens already. Leave it out.")
    return WaitingSite(name, listen)


def is_address(text: str) -> bool:
    """Tells whether the text is a host and a port, as `10.0.0.1:8100`, `[::1]:8100` or `main.internal:8100`."""
    found = _LISTEN.fullmatch(text)
    return found is not None and 0 < int(found[2]) < 65536


@dataclass(frozen=True, slots=True)
class FrontBucket:
    nameservers: Sequence[str]
    certificates: Path


@dataclass(frozen=True, slots=True)
class FrontConfig:
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
    with_arguments: Mapping[str, Sequence[str]] = field(default_factory=dict)
    read: Sequence[str] = ()
    reader_salt: str = ""
    elsewhere: WaitingSite = field(default_factory=WaitingSite)
    public_port: int | None = None
    shelves: Path | None = None
    served: Path | None = None
    hot_seconds: float = 5
    bucket: FrontBucket | None = None
    disk: DiskShares | None = None
    """The shares of a bounded disk."""
    samples: str = ""
    """The host and port at which nginx serves the demo's sample feeds; empty without them."""
    main_servers: Sequence[str] = ()
    """The hosts and ports of main instances; empty for the one of this machine. So too for waiting instances."""
    retry_servers: Sequence[str] = ()


def write_configuration(front: FrontConfig) -> None:
    directory = front.runtime.nginx
    directory.mkdir(mode=0o700, exist_ok=True)
    for name, text in render_templates(front).items():
        (directory / name).write_text(text)


def render_templates(front: FrontConfig) -> dict[str, str]:
    values = _template_values(front)
    return {name: fill_template((BASE_DIR / "nginx" / name).read_text(), values) for name in NGINX_TEMPLATES}


def fill_template(template: str, values: Mapping[str, str]) -> str:
    """The template with every {{name}} replaced. Raises KeyError for a name without a value."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: values[found[1]], template)


def _template_values(front: FrontConfig) -> dict[str, str]:
    runtime = front.runtime
    same = (
        "listen",
        "backlog",
        "public_scheme",
        "retry_path",
        "upload_max_bytes",
        "delivery_max_bytes",
        "hot_max_bytes",
    )
    proxy_seconds, admin_seconds = front.proxy_timeout_seconds, front.admin_timeout_seconds
    return {
        **{name: str(getattr(front, name)) for name in same},
        **{name: str(limit) for name, limit in asdict(front.limits).items()},
        "front_socket": str(runtime.socket("front")),
        "main_servers": _upstream("main", runtime.socket("main"), front.main_servers),
        "retry_servers": _upstream("retry", runtime.socket("retry"), front.retry_servers),
        "next_upstream": _next_upstream(bool(front.main_servers or front.retry_servers)),
        "draining": _quote_path(runtime.draining),
        "user": "user root;" if front.is_root else "",  # root's own nginx could not enter a private directory
        "runtime": str(runtime.nginx),
        "configuration": str(runtime.nginx),
        "worker_processes": "1" if front.small else "auto",
        "server_names": server_names(front.allowed_hosts),
        "own_host": _own_host(front.allowed_hosts),
        "waiting_listen": front.elsewhere.listen or front.listen,
        "waiting_default": _waiting_default(front),
        "waiting_host": front.elsewhere.host or '""',
        "waiting_site": f"include {runtime.nginx}/elsewhere.conf;" if front.elsewhere.host else "",
        "samples_site": f"include {runtime.nginx}/samples.conf;" if front.samples else "",
        "samples_listen": front.samples or front.listen,
        "samples_root": _quote_path(BASE_DIR / "feeds" / "demo" / "data" / "samples"),
        "counted": "\n        ".join(f'"~^{re.escape(each)}" 1;' for each in front.counted),
        "with_arguments": "\n        ".join(_arguments_line(*each) for each in front.with_arguments.items()),
        "read": "\n        ".join(f'"~^{re.escape(each)}" " $reader_1$reader_2$reader_3";' for each in front.read),
        "readers": "\n    ".join(_reader_split(front.reader_salt, digits) for digits in ("1", "2", "3")),
        "traffic_log": _traffic_log(front.traffic_log, "traffic", "$is_counted"),
        "tiles_log": _tiles_log(front),
        "trusted_proxies": _trusted_proxies(front.trusted_proxies),
        "main_timeout": str(MAIN_TIMEOUT_SECONDS),
        # Clients that wait, or send a layer, during a reload of the configuration are answered by the old workers.
        "shutdown_timeout": f"{max(proxy_seconds, admin_seconds) + SHUTDOWN_SPARE_SECONDS:.0f}",
        "proxy_timeout": f"{proxy_seconds:.0f}",
        "admin_timeout": f"{admin_seconds:.0f}",
        "deliveries_per_address": str(DELIVERIES_PER_ADDRESS),
        "ports": _ports(front),
        "files_host": FILES_HOST,
        "compressed_min_bytes": str(headers.COMPRESSED_MIN_BYTES),
        "compressed_types": " ".join(kind for kind in headers.COMPRESSED_TYPES if kind != _ALWAYS_COMPRESSED),
        "uploads_per_address": str(UPLOADS_PER_ADDRESS),
        **_disk_values(front.disk, front.delivery_max_bytes),
        "hot": _quote_path(front.data.hot),
        "hot_keys": "8m" if front.small else "32m",
        "static_parent": _quote_path(front.data.static.parent),
        "shelves": nginx_quote(f"{front.shelves or front.data.held}/"),
        **_problem_values(),
        **served_values(front.hot_seconds),
        "served_root": _quote_path(front.served or front.data.blobs),
        "served_maps": f"include {runtime.nginx}/served_maps.conf;" if front.served else "",
        "served_location": f"include {runtime.nginx}/served.conf;" if front.served else "",
        "bucket_location": f"include {runtime.nginx}/bucket.conf;" if front.bucket else "",
        "bucket_trust": _bucket_trust(front.bucket) if front.bucket else "",
    }


def _disk_values(shares: DiskShares | None, delivery_bytes: int) -> dict[str, str]:
    """The limits of temporary files. Without a bound of the disk no body is counted, and the limits mean nothing."""
    deliveries = shares.count_deliveries(delivery_bytes) if shares else 1
    return {
        "counted_body": '"1"' if shares else '""',
        "bodies_at_a_time": str(BODIES_AT_A_TIME),
        "uploads_at_a_time": str(UPLOADS_AT_A_TIME),
        "deliveries_at_a_time": str(deliveries),
        "answer_file_bytes": "0" if shares else "1024m",
    }


def _problem_values() -> dict[str, str]:
    """The words and fields of nginx' own problems: those of the instances."""
    titles, fields = responses.PROBLEM_TITLES, headers.CORS_HEADERS
    return {
        "problem_titles": "\n    ".join(f"{status} {nginx_quote(title)};" for status, title in titles.items()),
        "shared_fields": "\n".join(f"add_header {name} {nginx_quote(value)} always;" for name, value in fields.items()),
    }


def served_values(hot_seconds: float) -> dict[str, str]:
    return {
        "served_address": nginx_quote(_served_address()),
        "served_tries": " ".join(f"$served_file.{ending}" for ending in DIRECT_ENDINGS.values()),
        "served_types": "\n        ".join(f"{kind} {ending};" for kind, ending in DIRECT_ENDINGS.items()),
        "served_dispositions": "\n    ".join(
            f"{ending} {nginx_quote(delivery_headers(kind, _NAME_VARIABLE)['Content-Disposition'])};"
            for kind, ending in DIRECT_ENDINGS.items()
        ),
        "served_fields": "\n    ".join(
            f"add_header {name} {nginx_quote(value)};" for name, value in _served_fields(hot_seconds).items()
        ),
        "served_seconds": str(headers.hot_window_seconds(hot_seconds)),
        "served_status": FILE_CACHE_STATUS,
    }


def _served_address() -> str:
    """A regular expression of the files' addresses, with groups for the digest and its parts."""
    name = f"(?<served_shelf>[0-9a-f]{{2}})[0-9a-f]{{{NAME_DIGITS - 2}}}"
    return f"^{ADDRESS_PREFIX}(?<served_digest>(?<served_name>{name})[0-9a-f]{{{64 - NAME_DIGITS}}})$"


def _served_fields(hot_seconds: float) -> dict[str, str]:
    fields = delivery_fields(next(iter(DIRECT_ENDINGS)), _DIGEST_VARIABLE, _ANY_TIME, BY_DIGEST, hot_seconds)
    return {name: _OF_TYPES.get(name, value) for name, value in fields.items() if name not in _NOT_SHARED}


def server_names(allowed_hosts: Sequence[str]) -> str:
    """ALLOWED_HOSTS for nginx: both write `.example.com` for a domain and all below it."""
    if "*" in allowed_hosts:
        return '"" "~."'
    return " ".join(dict.fromkeys(allowed_hosts)) or '""'


def _own_host(allowed_hosts: Sequence[str]) -> str:
    """A host that main accepts: that of requests for an address instead of a name."""
    return next((host.lstrip(".") for host in allowed_hosts if host != "*"), "localhost")


def _arguments_line(beginning: str, names: Sequence[str]) -> str:
    """The line for addresses that are logged with their arguments, if they have no others and plain values."""
    argument = f"(?:{'|'.join(map(re.escape, names))})=[A-Za-z0-9_.,%+-]{{0,{MAX_LOGGED_CHARACTERS}}}(?:&|$)"
    found = f"(?<named_arguments>\\?(?:{argument}){{1,{len(names)}}})"
    return f'"~^{re.escape(beginning)}[^?]*{found}$" $named_arguments;'


def _reader_split(salt: str, place: str) -> str:
    """Two digits of the number that stands for a reader."""
    digits = " ".join(f"1% {number:02};" for number in range(99))
    return f'split_clients "{salt}{place}$network$http_user_agent" $reader_{place} {{ {digits} * 99; }}'


def _upstream(name: str, socket: Path, servers: Sequence[str]) -> str:
    """The servers of an upstream. One server is named twice: a request that a dying worker lost is tried again."""
    addresses = servers or [f"unix:{socket}"]
    if len(addresses) == 1:
        lines = 2 * [f"server {addresses[0]} max_fails=0;"]
    else:
        lines = [f"server {address} max_fails={MAX_FAILS} fail_timeout={FAIL_SECONDS}s;" for address in addresses]
    shared = [f"zone {name} 256k;", "least_conn;"]
    kept = [f"keepalive {KEPT_CONNECTIONS};", f"keepalive_timeout {KEPT_SECONDS}s;"]  # after the way of balancing
    return "\n    ".join([*shared, *lines, *kept] if servers else lines)


def _next_upstream(has_other_machines: bool) -> str:
    """The failures after which nginx asks another server. POST is asked anew only if no byte of it was sent.

    A machine that is cut off refuses nothing: connecting takes too long there. A slow answer is not asked for again.
    """
    limit = f"proxy_next_upstream_timeout {NEXT_UPSTREAM_SECONDS}s;"
    return f"proxy_next_upstream error timeout;\n{limit}" if has_other_machines else "proxy_next_upstream error;"


def _ports(front: FrontConfig) -> str:
    """The ports under which clients may know the site, as alternatives of a regular expression."""
    ports = (front.listen.rpartition(":")[2], front.public_port)
    return "|".join(dict.fromkeys(str(port) for port in ports if port))


def _waiting_default(front: FrontConfig) -> str:
    """The default server where clients wait: it refuses requests for other hosts, as everywhere."""
    listen = front.elsewhere.listen
    return f"listen {listen} default_server backlog={front.backlog};" if listen else ""


FAILURE_LOG = "access_log /dev/stdout compact if=$went_wrong;"


def _traffic_log(log: Path | None, form: str, condition: str) -> str:
    return f"access_log {_quote_path(log)} {form} buffer=64k flush=1s if={condition};" if log else ""


def _tiles_log(front: FrontConfig) -> str:
    """The logs of tiles, if they are counted: in a location they take the place of those of the server."""
    if front.traffic_log is None or "/tiles/" not in front.counted:
        return ""
    return f"{FAILURE_LOG}\n{_traffic_log(front.traffic_log, 'tiles', '$is_counted_tile')}"


def _trusted_proxies(proxies: Sequence[str]) -> str:
    lines = [f"set_real_ip_from {proxy};" for proxy in proxies]
    return "\n".join([*lines, "real_ip_header X-Forwarded-For;", "real_ip_recursive on;"]) if lines else ""


def _bucket_trust(bucket: FrontBucket) -> str:
    resolver = [f"resolver {' '.join(bucket.nameservers)};", "resolver_timeout 3s;"] if bucket.nameservers else []
    trust = ["proxy_ssl_server_name on;", "proxy_ssl_verify on;", "proxy_ssl_verify_depth 4;"]
    certificates = f"proxy_ssl_trusted_certificate {_quote_path(bucket.certificates)};"
    return "\n    ".join([*resolver, *trust, certificates])


def nginx_quote(text: str) -> str:
    """Quotes text for nginx' configuration. Variables keep their meaning."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _quote_path(path: Path) -> str:
    return nginx_quote(str(path))
