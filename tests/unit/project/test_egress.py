"""Only the fetchers' guarded client talks to other servers: every fetch goes by that one door."""

import ast
import re
from collections.abc import Iterable, Iterator

from project.paths import BASE_DIR

CLIENTS = {
    *("aiohttp", "boto3", "botocore", "django.core.mail", "ftplib", "http.client", "httpx", "imaplib", "poplib"),
    *("requests", "smtplib", "socket", "ssl", "telnetlib", "urllib.request", "urllib3", "xmlrpc.client"),
}
CONNECTING = {
    *("create_connection", "create_datagram_endpoint", "create_unix_connection", "open_connection"),
    *("open_unix_connection", "sock_connect"),
}
"""Functions of asyncio, which is everywhere, and of others that connect."""
KNOWN = {
    "feeds/demo/load.py": "whether there is a way out at all: connects, and asks nothing",
    "feeds/upkeep.py": "mail to the admins, by the server of MAIL_URL",
    "project/announce.py": "this site's own health",
    "resources/bucket.py": "the storage, at STORAGE_URL",
    "project/health.py": "this site's own waiting instance",
    "project/local_threads.py": "accepts connections of the front",
    "project/main_worker.py": "answers by connections that the front has opened",
    "project/nginx_start.py": "listens",
    "project/preflight.py": "whether a port is free",
    "project/environment.py": "this machine's name",
    "resources/mirror/storage/held_files.py": "files that another machine of this site holds",
    "retry/gunicorn_worker.py": "listens",
    "retry/rooms.py": "this site's own front",
}


_PARENTS = {name.rpartition(".")[0] or name for name in CLIENTS}
_MAY_CONNECT = re.compile(f"(?:import|from) .*(?:{'|'.join(_PARENTS)})|{'|'.join(CONNECTING)}")


def clients_of(source: str) -> Iterator[str]:
    """The clients and the connecting functions that a module imports or calls."""
    for node in ast.walk(ast.parse(source)) if _MAY_CONNECT.search(source) else ():
        match node:
            case ast.Import(names=names):
                yield from _clients(each.name for each in names)
            case ast.ImportFrom(module=str(module), level=0, names=names):
                yield from _clients(f"{module}.{each.name}" for each in names)
                yield from CONNECTING & {each.name for each in names}
            case ast.Attribute(attr=name) | ast.Name(id=name) if name in CONNECTING:
                yield name


def _clients(names: Iterable[str]) -> set[str]:
    return {client for name in names for client in CLIENTS if f"{name}.".startswith(f"{client}.")}


def test_all_that_is_fetched_goes_by_the_guarded_client() -> None:
    files = [path for app in ("feeds", "project", "resources", "retry") for path in (BASE_DIR / app).rglob("*.py")]
    found = {str(path.relative_to(BASE_DIR)) for path in files if any(clients_of(path.read_text()))}
    assert {path for path in found if not path.startswith("resources/fetch/http/")} == set(KNOWN)


def test_a_client_is_found_however_it_is_imported() -> None:
    for line in (
        *("import requests", "import socket", "import os, ssl", "import django.core.mail.backends.smtp"),
        *("from urllib import request", "from urllib.request import urlopen", "from xmlrpc.client import ServerProxy"),
        *("from django.core import mail", "from django.core.mail import send_mail"),
        *("from boto3.session import Session", "from botocore.session import get_session"),
        *("from xmlrpc import (\n    client,\n)", "from asyncio import open_connection as connect"),
        *("import asyncio\nasyncio.open_connection('a', 80)", "await loop.create_connection(Protocol, 'a', 80)"),
        "connect = loop.sock_connect",
    ):
        assert list(clients_of(line)), line


def test_what_does_not_connect_is_no_client() -> None:
    for line in ("import asyncio", "from http import HTTPStatus", "from django.core import checks", "import sslang"):
        assert not list(clients_of(line)), line
