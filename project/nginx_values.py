"""What the front is told, from the settings. Neither writes its configuration nor asks whether its ports are free."""

import os
from pathlib import Path
from urllib.parse import urlsplit

import certifi
from django.conf import settings
from django.utils.crypto import salted_hmac

from . import fronting, mounts, starting, storing
from .limits import listen_backlog, nginx_limits
from .paths import BASE_DIR, DataDirectory, RuntimeDirectory
from .waiting import Elsewhere, elsewhere

SAMPLES_HOST = "127.0.0.2"
"""At the site's own port: an address of their own, for the fetchers may ask there."""


def front(
    data: DataDirectory, runtime: RuntimeDirectory, *, files: int, samples: fronting.Samples | None
) -> fronting.Front:
    """All that the templates depend on, for an nginx that may open so many files. Raises StartError."""
    return fronting.Front(
        data=data,
        runtime=runtime,
        listen=f"{settings.LISTEN}:{settings.PORT}",
        allowed_hosts=settings.ALLOWED_HOSTS,
        public_scheme="https" if settings.PUBLIC_URL.startswith("https:") else "http",
        retry_path=urlsplit(settings.RETRY_AFTER_SERVER).path,
        trusted_proxies=settings.TRUSTED_PROXIES,
        proxy_timeout_seconds=settings.PROXY_TIMEOUT,
        admin_timeout_seconds=settings.ADMIN_TIMEOUT,
        upload_max_bytes=settings.UPLOAD_MAX_BYTES,
        delivery_max_bytes=settings.FEEDS_PUSH_MAX_BYTES,
        hot_max_bytes=settings.HOT_MAX_BYTES,
        backlog=listen_backlog(),
        limits=nginx_limits(files, settings.RETRY_MAX_CLIENTS),
        small=settings.SMALL,
        is_root=os.getuid() == 0,
        traffic_log=settings.TRAFFIC_LOG if settings.OBSERVE else None,
        counted=tuple(settings.TRAFFIC),
        read=settings.TRAFFIC_READERS,
        reader_salt=salted_hmac("project.run.readers", "", algorithm="sha256").hexdigest()[:32],
        elsewhere=waits(),
        public_port=urlsplit(settings.PUBLIC_URL).port,
        shelves=_shelves(),
        served=_served(),
        hot_seconds=settings.HOT_SECONDS,
        bucket=_bucket(),
        samples=samples,
    )


def waits() -> Elsewhere:
    """Where clients wait, if not at the site's own address. Raises StartError when settings contradict each other."""
    own = f"{settings.LISTEN}:{settings.PORT}"
    return elsewhere(settings.RETRY_AFTER_SERVER, settings.RETRY_LISTEN, settings.ALLOWED_HOSTS, own)


def samples(listen: str) -> fronting.Samples | None:
    """The demo's sample feeds, as nginx serves them at this host and port; none without one."""
    if not listen:
        return None
    return fronting.Samples(listen, BASE_DIR / "feeds" / "demo" / "data" / "samples")


def _shelves() -> Path:
    """Where this machine has mirrored files. Raises StartError for what nginx' configuration cannot hold."""
    folder = storing.folder_of(settings.STORAGES["default"])
    shelves = folder / "mirror" if folder else Path(settings.MIRROR_HELD_DIRECTORY)
    starting.require_plain(shelves)
    return shelves


def _served() -> Path | None:
    """Where main links mirrored files for nginx to serve; None where it is not seen at once that links are gone."""
    folder = storing.folder_of(settings.STORAGES["default"])
    known = Path("/proc/self/mountinfo")
    if folder and mounts.is_prompt(folder.resolve(), known.read_text() if known.exists() else ""):
        return folder / "served"
    return None


def _bucket() -> fronting.Bucket | None:
    """How nginx reaches the bucket, if there is one."""
    if storing.folder_of(settings.STORAGES["default"]):
        return None
    return fronting.Bucket(starting.nameservers(Path("/etc/resolv.conf")), Path(certifi.where()))
