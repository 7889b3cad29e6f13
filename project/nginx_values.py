"""The values of the front's configuration, from the settings. Writes nothing and checks no ports.

Links in the storage may be served by nginx only if their removal shows at once: network file systems remember
folders and files, NFS for up to a minute by default.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import certifi
from django.conf import settings
from django.utils.crypto import salted_hmac

from . import environment, nginx_config, preflight
from .nginx_config import WaitingSite, read_waiting_site
from .paths import DataDirectory, RuntimeDirectory
from .preflight import listen_backlog, nginx_limits

SAMPLES_HOST = "127.0.0.2"
"""The address of the sample feeds, at the site's own port: their own, because the fetchers may ask there."""

PROMPT_SECONDS = 1
"""The longest that a file system may remember folders and files for removals to show at once."""

_NETWORK = re.compile(r"nfs4?|cifs|smb3|smbfs|ceph|lustre|afs|9p|virtiofs|fuse\..+")
_OCTAL = re.compile(r"\\([0-7]{3})")


def front_config(
    data: DataDirectory, runtime: RuntimeDirectory, *, files: int, samples: str
) -> nginx_config.FrontConfig:
    """The values of the templates, for an nginx that may open so many files. Raises StartError."""
    folder = environment.storage_folder(settings.STORAGES["default"])
    return nginx_config.FrontConfig(
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
        disk=settings.DISK_SHARES,
        backlog=listen_backlog(),
        limits=nginx_limits(files, settings.RETRY_MAX_CLIENTS),
        small=settings.SMALL,
        is_root=os.getuid() == 0,
        traffic_log=settings.TRAFFIC_LOG if settings.OBSERVE else None,
        counted=tuple(settings.TRAFFIC),
        with_arguments=settings.TRAFFIC_ARGUMENTS,
        read=settings.TRAFFIC_READERS,
        reader_salt=salted_hmac("project.run.readers", "", algorithm="sha256").hexdigest()[:32],
        elsewhere=waiting_site(),
        public_port=urlsplit(settings.PUBLIC_URL).port,
        shelves=_shelves_folder(folder),
        served=_served_folder(folder),
        hot_seconds=settings.HOT_SECONDS,
        bucket=None if folder else _front_bucket(),
        samples=samples,
        main_servers=settings.MAIN_SERVERS,
        retry_servers=settings.RETRY_SERVERS,
    )


def waiting_site() -> WaitingSite:
    """The place where clients wait, if not the site's own address. Raises StartError for contradicting settings."""
    own = f"{settings.LISTEN}:{settings.PORT}"
    return read_waiting_site(settings.RETRY_AFTER_SERVER, settings.RETRY_LISTEN, settings.ALLOWED_HOSTS, own)


def _shelves_folder(folder: Path | None) -> Path:
    """This machine's folder of mirrored files. Raises StartError for a path that nginx' configuration cannot hold."""
    shelves = folder / "mirror" if folder else Path(settings.MIRROR_HELD_DIRECTORY)
    preflight.require_plain(shelves)
    return shelves


def _served_folder(folder: Path | None) -> Path | None:
    """The folder where main links mirrored files for nginx; None if removals do not show at once there."""
    known = Path("/proc/self/mountinfo")
    if folder and is_prompt_folder(folder.resolve(), known.read_text() if known.exists() else ""):
        return folder / "served"
    return None


def _front_bucket() -> nginx_config.FrontBucket:
    return nginx_config.FrontBucket(preflight.read_nameservers(Path("/etc/resolv.conf")), Path(certifi.where()))


@dataclass(frozen=True, slots=True)
class Mount:
    """A line of /proc/self/mountinfo (proc(5)): mount point, kind of file system, options."""

    point: Path
    kind: str
    options: dict[str, str]

    @property
    def is_prompt(self) -> bool:
        if not _NETWORK.fullmatch(self.kind) or "noac" in self.options:
            return True
        limits = [self.options.get(name) for name in ("acregmax", "acdirmax")]
        limits = limits if any(limits) else [self.options.get("actimeo")]
        return all(limit is not None and limit.isdecimal() and int(limit) <= PROMPT_SECONDS for limit in limits)


def is_prompt_folder(folder: Path, mountinfo: str) -> bool:
    """Tells whether removals from the folder show at once. True for a folder on no known mount.

    `folder` is absolute, without symbolic links; it need not exist.
    """
    mounts = reversed([mount for line in mountinfo.splitlines() if (mount := _parse_mount(line))])  # the last on top
    found = [mount for mount in mounts if folder.is_relative_to(mount.point)]
    return not found or max(found, key=lambda mount: len(mount.point.parts)).is_prompt


def _parse_mount(line: str) -> Mount | None:
    before, _, after = line.partition(" - ")
    match before.split(), after.split():
        case [_, _, _, _, point, *_], [kind, _, *rest]:
            pairs = ",".join(rest).split(",")
            options = {name: value for name, _, value in (one.partition("=") for one in pairs)}
            plain = _OCTAL.sub(lambda found: chr(int(found[1], 8)), point)
            return Mount(Path(plain), kind, options)
        case _:
            return None
