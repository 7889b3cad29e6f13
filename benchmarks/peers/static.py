"""A static file of the site's own nginx with the fields of a mirrored file: the same work without the look-up."""

import os
import signal
import urllib.request
from pathlib import Path

from tests.support.stack import Stack, eventually

PATH = "/peer/"
NGINX_OWN = frozenset({"server", "date", "connection", "content-length", "last-modified", "etag", "accept-ranges"})
"""Fields that nginx gives to files itself."""
_BEFORE = "    location /static/ {"


def serve_alike(stack: Stack, address: str, folder: Path) -> None:
    """Files of the folder under PATH, with the fields that the address is answered with; returns when they are."""
    with urllib.request.urlopen(stack.base_url + address) as answer:
        fields = [(name, value) for name, value in answer.headers.items() if name.lower() not in NGINX_OWN]
    configuration = stack.runtime / "nginx" / "site.conf"
    text = configuration.read_text()
    configuration.write_text(text.replace(_BEFORE, f"{_location(folder, fields)}\n\n{_BEFORE}", 1))
    os.kill(stack.pid("nginx"), signal.SIGHUP)
    file = next(folder.iterdir()).name
    eventually(lambda: _is_there(f"{stack.base_url}{PATH}{file}"), 10, "nginx has read its configuration")


def _location(folder: Path, fields: list[tuple[str, str]]) -> str:
    said = [f"        add_header {name} {_quoted(value)};" for name, value in fields if name.lower() != "content-type"]
    lines = [f"        alias {folder}/;", "        open_file_cache off;", *said]
    return "\n".join([f"    location {PATH} {{", *lines, "    }"])


def _quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _is_there(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except OSError:
        return False
