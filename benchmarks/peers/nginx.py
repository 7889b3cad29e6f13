"""nginx with `proxy_cache_lock` in front of a Django project that prepares content on request."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.stack import free_port

from . import django
from .installation import MissingError
from .sites import Site, process

SECONDS = django.TIMEOUT_SECONDS
CONFIGURATION = """
daemon off;
{user}
pid {folder}/nginx.pid;
error_log {folder}/nginx-error.log warn;
worker_processes auto;
worker_rlimit_nofile 20000;
events {{ worker_connections 10000; multi_accept on; }}
http {{
    sendfile on;
    tcp_nopush on;
    keepalive_requests 100000;
    {settings}
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    proxy_cache_path {folder}/cache keys_zone=hot:32m max_size=1g inactive=1h use_temp_path=off;
    server {{
        listen 127.0.0.1:{port} backlog={backlog} reuseport;
        location / {{
            {served}
        }}
    }}
}}
"""
QUICK = "access_log off; open_file_cache max=1000;"
PACKAGED = "access_log {folder}/access.log;"
"""As Debian's package sets it: a log, and each file opened anew."""
LOCKED = """
            proxy_pass http://unix:{socket}:;
            proxy_set_header Host 127.0.0.1;
            proxy_cache hot;
            proxy_cache_lock on;
            proxy_cache_lock_timeout {seconds}s;
            proxy_cache_lock_age {seconds}s;
            proxy_read_timeout {seconds}s;
"""


@contextmanager
def start(folder: Path, tile: bytes) -> Iterator[Site]:
    """One request at a time goes through for each address; others wait for its answer."""
    socket = folder / "django.sock"
    locked = LOCKED.format(socket=socket, seconds=SECONDS)
    with running(folder, locked) as host, django.running(folder, tile, f"unix:{socket}"):
        site = Site(host, django.CACHED, folder / "slow")
        site.wait_for_cached()
        yield site


@contextmanager
def running(folder: Path, served: str, settings: str = QUICK) -> Iterator[str]:
    """nginx that serves everything in this way, and its address. Does not wait until it answers."""
    program = shutil.which("nginx")
    if program is None:
        raise MissingError("there is no nginx here")
    port, configuration = free_port(), folder / "nginx.conf"
    user = "user root;" if os.geteuid() == 0 else ""
    values = {"folder": folder, "user": user, "port": port, "backlog": django.BACKLOG, "served": served.strip()}
    configuration.write_text(CONFIGURATION.format(**values, settings=settings.format(folder=folder)))
    command = [program, "-c", str(configuration), "-e", str(folder / "nginx-error.log")]
    with process(command, folder / "nginx.log"):
        yield f"127.0.0.1:{port}"
