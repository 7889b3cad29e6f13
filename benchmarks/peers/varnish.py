"""Varnish in front of a Django project that prepares content on request: it joins requests for one address itself."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.stack import eventually, free_port

from . import django, installation
from .installation import MissingError
from .sites import START_SECONDS, Site, process

PACKAGES = ("varnish", "libvarnishapi3", "libjemalloc2")
CONFIGURATION = """vcl 4.1;
backend django {{ .path = "{socket}"; .first_byte_timeout = {seconds}s; .between_bytes_timeout = {seconds}s; }}
"""
THREADS = {"thread_pool_min": 100, "thread_pool_max": 5000, "listen_depth": django.BACKLOG}


@contextmanager
def start(folder: Path, tile: bytes) -> Iterator[Site]:
    """The system's own, or Debian's package, unpacked."""
    program, environment, options = _program()
    port, socket, configuration = free_port(), folder / "django.sock", folder / "default.vcl"
    configuration.write_text(CONFIGURATION.format(socket=socket, seconds=django.TIMEOUT_SECONDS))
    parameters = [f"{name}={value}" for name, value in {**THREADS, **options}.items()]
    command = [program, "-F", "-j", "none", "-n", str(folder / "varnish"), "-a", f"127.0.0.1:{port}", "-T", "none"]
    command += ["-s", "malloc,256m", "-f", str(configuration), *(part for one in parameters for part in ("-p", one))]
    with django.running(folder, tile, f"unix:{socket}"):
        eventually(socket.exists, START_SECONDS, "Django listens")
        with process(command, folder / "varnish.log", environment):
            site = Site(f"127.0.0.1:{port}", django.CACHED, folder / "slow")
            site.wait_for_cached()
            yield site


def _program() -> tuple[str, dict[str, str], dict[str, str]]:
    """varnishd, its environment, and parameters that tell it where its parts are."""
    if shutil.which("cc") is None and shutil.which("gcc") is None:
        raise MissingError("Varnish needs a C compiler, and there is none here")
    found = shutil.which("varnishd")
    if found:
        return found, dict(os.environ), {}
    root = installation.unpacked("varnish", *PACKAGES)
    libraries = [*root.glob("usr/lib/*-linux-gnu"), *root.glob("usr/lib/*-linux-gnu/varnish")]
    environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(map(str, libraries))}
    return str(root / "usr/sbin/varnishd"), environment, {"vcl_path": str(root / "etc/varnish")}
