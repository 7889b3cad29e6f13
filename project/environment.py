"""Reads settings from the environment, strictly: an error names the variable, its value and the valid values.

Settings import this module before Django is set up: it must import no app and no model.
"""

import ipaddress
import json
import os
import re
import socket
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

import environ
from django.core.exceptions import ImproperlyConfigured

from retry import server_urls
from retry.server_urls import ServerUrl

TRUE_WORDS = frozenset({"1", "true", "yes", "on"})
FALSE_WORDS = frozenset({"0", "false", "no", "off"})

_WHOLE = re.compile(r"[0-9]{1,18}", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,15}(\.[0-9]{1,15})?", re.ASCII)

_DATABASE_SCHEMES = frozenset({"postgres", "postgresql", "psql", "pgsql", "sqlite"})

# Settings that are no attribute of Django's settings by the same name.
_OTHER_SETTINGS = {"DATABASE_URL", "STORAGE_URL", "MAIL_URL", "SECRET_KEY_FILE", "LOG_LEVEL", "HSTS_SECONDS"}
# Keys stay out of files if the operator keeps them out; a directory may be moved; another server on this data waits by
# itself.
_NEVER_REMEMBERED = frozenset({"SECRET_KEY", "SECRET_KEY_FALLBACKS", "DATA_DIR", "RETRY_INSTANCE", "RETRY_FRONT"})


class Environment:
    """The environment's variables by kind. An unset or empty variable has its default."""

    def __init__(self) -> None:
        self._read = environ.Env()

    def text(self, name: str, default: str) -> str:
        return str(self._read.str(name, default))

    def words(self, name: str, default: Sequence[str] = ()) -> list[str]:
        return list(self._read.list(name, default=[])) or list(default)

    def database(self, name: str, default: str) -> dict[str, Any]:
        """Django's database, from an address. It may have a password: neither it nor its error is told."""
        url = self.text(name, "") or default
        refusal = f"{name} must be postgres://user:password@host/name or sqlite:////path, with %2F for / in a password."
        if url.partition(":")[0] not in _DATABASE_SCHEMES:
            raise ImproperlyConfigured(refusal)
        try:
            return dict(self._read.db_url_config(url))
        except ValueError:
            raise ImproperlyConfigured(refusal) from None

    def mail(self, name: str, default: str) -> dict[str, Any]:
        """Django's mail settings, from an address such as smtp+tls://user:password@host:587."""
        return dict(self._read.email_url(name, default))

    def whole(self, name: str, default: int, *, least: int = 1) -> int:
        given = self.text(name, "")
        if given and not (_WHOLE.fullmatch(given) and int(given) >= least):
            raise ImproperlyConfigured(f"{name} is {given!r}; it must be a whole number of at least {least}.")
        return int(given) if given else default

    def bound(self, name: str, default: int, *, least: int) -> int:
        """A bound of at least so much; 0 is none."""
        given = self.whole(name, default, least=0)
        if 0 < given < least:
            raise ImproperlyConfigured(f"{name} is '{given}'; it must be at least {least:,}, or 0 for no bound.")
        return given

    def processes(self, name: str, default: int) -> int:
        """A number of processes; `auto` is one for each core."""
        return len(os.sched_getaffinity(0)) if self.text(name, "") == "auto" else self.whole(name, default)

    def some(self, name: str, choices: Sequence[str]) -> list[str]:
        """Some of the choices, in their order; by default all."""
        given = self.words(name, choices)
        if unknown := [word for word in given if word not in choices]:
            raise ImproperlyConfigured(f"{name} has {unknown[0]!r}; it must have some of {', '.join(choices)}.")
        return [word for word in choices if word in given]

    def number(self, name: str, default: float) -> float:
        given = self.text(name, "")
        if given and not _NUMBER.fullmatch(given):
            raise ImproperlyConfigured(f"{name} is {given!r}; it must be a number such as 25 or 0.5.")
        return float(given) if given else default

    def switch(self, name: str, default: bool) -> bool:
        given = self.text(name, "").lower()
        if given and given not in TRUE_WORDS | FALSE_WORDS:
            raise ImproperlyConfigured(f"{name} is {given!r}; it must be 1 or 0.")
        return given in TRUE_WORDS if given else default

    def choice(self, name: str, default: str, choices: Sequence[str]) -> str:
        given = self.text(name, "") or default
        if given not in choices:
            raise ImproperlyConfigured(f"{name} is {given!r}; it must be one of {', '.join(choices)}.")
        return given


_PRIVATE_NAMES = (
    *(".localhost", ".local", ".internal", ".test", ".invalid", ".example", ".localdomain", ".home.arpa", ".onion"),
    *(".lan", ".home", ".corp", ".intranet", ".private"),
)
"""Endings of names that the internet does not resolve: reserved ones (RFC 2606, 6761, 6762, 7686, 8375), and others
in use in private networks (RFC 6762, appendix G).
"""


def may_be_reached(host: str) -> bool:
    """Tells whether the internet may reach the host. False for this machine, private networks, names without a dot."""
    try:
        return ipaddress.ip_address(host).is_global
    except ValueError:
        name = host.lower().rstrip(".")
        return "." in name and not name.endswith(_PRIVATE_NAMES)


OWN_HUB, NO_HUB = "self", "none"


def choose_hub(given: str, public_host: str) -> str:
    """The hub that this site's feeds name: the given one, OWN_HUB by default where others reach it, or empty."""
    chosen = given or (OWN_HUB if may_be_reached(public_host) else "")
    return "" if chosen == NO_HUB else chosen


def explain_polling_only(public_url: str) -> str:
    """The sentence for operators and admins of a site that no other server can reach."""
    named = public_url or "not set"
    return f"Feeds are polled only: hubs and clouds cannot reach PUBLIC_URL ({named}) to announce news."


def own_store_url(socket_path: Path, password: str) -> str:
    """The address of a Redis server of this machine, by its socket."""
    return f"unix://:{quote(password, safe='')}@{socket_path}" if password else f"unix://{socket_path}"


def celery_broker(redis_url: str) -> tuple[str, dict[str, Any]]:
    """The server in Celery's spelling, with its transport options.

    `unix:///a.sock?db=1` is `redis+socket:///a.sock?virtual_host=1`, and each Sentinel has a URL of its own.
    """
    parts = urlsplit(redis_url)
    if parts.scheme == server_urls.CLUSTER:
        raise ImproperlyConfigured("Celery knows no Redis Cluster: set QUEUES_URL to a Redis server, or to Sentinels.")
    if parts.scheme == server_urls.SENTINEL:
        named = parse_redis_url("REDIS_URL or QUEUES_URL", redis_url)
        login = ":".join(quote(named.login.get(name, ""), safe="") for name in ("username", "password"))
        urls = [f"sentinel://{login}@{host}:{port}/{named.database}" for host, port in named.nodes]
        return ";".join(urls), {"master_name": named.service, "sentinel_kwargs": named.sentinel_login}
    if parts.scheme != "unix":
        return redis_url, {}
    database = dict(parse_qsl(parts.query)).get("db", "0")
    return f"redis+socket://{parts.netloc}{parts.path}?virtual_host={database}", {}


def django_cache(cache_url: str) -> tuple[str, dict[str, Any]]:
    """The server in the spelling of django-redis, with its options."""
    if server_urls.is_cluster(cache_url):
        raise ImproperlyConfigured("CACHE_URL names one Redis server, or Sentinels, and no Cluster.")
    if not cache_url.startswith(f"{server_urls.SENTINEL}:"):
        return cache_url, {}
    named = parse_redis_url("CACHE_URL", cache_url)
    asking = {"SENTINELS": list(named.nodes), "SENTINEL_KWARGS": named.sentinel_login}
    factory = {"CONNECTION_FACTORY": "django_redis.pool.SentinelConnectionFactory", **asking}
    return f"redis://{named.service}/{named.database}", {**factory, "CONNECTION_POOL_KWARGS": named.login}


def parse_redis_url(name: str, url: str) -> ServerUrl:
    """Raises ImproperlyConfigured. The URL may hold a secret: it is not repeated."""
    try:
        return ServerUrl.parse(url)
    except ValueError as error:
        raise ImproperlyConfigured(f"{name}: {error}") from error


def storage_from(url: str) -> dict[str, Any]:
    """The STORAGES entry for `file:///path` or `s3://key:secret@endpoint[:port]/bucket?region=…&tls=0`."""
    parts = urlsplit(url)
    if parts.scheme == "file" and parts.path:
        return {
            "BACKEND": "django.core.files.storage.FileSystemStorage",
            "OPTIONS": {"location": unquote(parts.path), "base_url": None},
        }
    if parts.scheme == "s3" and parts.path.strip("/"):
        return {"BACKEND": "resources.bucket.Bucket", "OPTIONS": _s3_options(parts)}
    # The URL itself may hold a secret: it is not repeated.
    raise ImproperlyConfigured("STORAGE_URL must be file:///path or s3://key:secret@endpoint/bucket")


def _s3_options(parts: SplitResult) -> dict[str, Any]:
    query = dict(parse_qsl(parts.query))
    bucket, _, prefix = parts.path.strip("/").partition("/")
    scheme = "http" if query.get("tls") == "0" else "https"
    port = f":{parts.port}" if parts.port else ""
    return {
        "bucket_name": bucket,
        "location": prefix,
        "access_key": unquote(parts.username or "") or None,
        "secret_key": unquote(parts.password or "") or None,
        "endpoint_url": f"{scheme}://{parts.hostname}{port}" if parts.hostname else None,
        "region_name": query.get("region"),
        "querystring_auth": False,
        "file_overwrite": True,
    }


def storage_folder(storage: Mapping[str, Any]) -> Path | None:
    """The folder of a STORAGES entry; None if it is no file system."""
    location = storage.get("OPTIONS", {}).get("location") if storage["BACKEND"].endswith("FileSystemStorage") else None
    return Path(location) if location else None


def read_machine(path: Path) -> tuple[str, str]:
    """The machine's name and the id of its installation, from its file; the host's name and no id without one."""
    try:
        name, installation = path.read_text().split()
    except (OSError, ValueError):
        return socket.gethostname(), ""
    return name, installation


def read_boot_id() -> str:
    """A part of the id of this start of the host's kernel, which no other host has; empty where there is none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
    except OSError:
        return ""


def load_remembered(path: Path) -> dict[str, str]:
    """Loads the environment of the last run on this data; empty if there was none."""
    try:
        return {str(name): str(value) for name, value in json.loads(path.read_text()).items()}
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return {}


def remember_environment(path: Path, environment: Mapping[str, str], names: Container[str]) -> None:
    """Stores the environment's variables that are settings, without keys."""
    kept = {
        name: value
        for name, value in environment.items()
        if name not in _NEVER_REMEMBERED and (name in _OTHER_SETTINGS or (name.isupper() and name in names))
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")
