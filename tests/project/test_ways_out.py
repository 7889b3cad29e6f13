"""Nobody but the fetchers' guarded client talks to other servers: whatever is fetched goes by that one door."""

import ast
import re
from collections.abc import Iterator

from project.paths import BASE_DIR

CLIENTS = {"aiohttp", "ftplib", "http.client", "httpx", "requests", "smtplib", "socket", "urllib.request", "urllib3"}
KNOWN = {
    "feeds/demo/loading.py": "whether there is a way out at all: connects, and asks nothing",
    "project/announce.py": "this site's own health",
    "project/health.py": "this site's own waiting instance",
    "project/listening.py": "listens",
    "project/settings.py": "this machine's name",
    "project/starting.py": "whether a port is free",
    "resources/management/commands/fetch.py": "this machine's name",
    "retry/front.py": "this site's own front",
    "retry/workers.py": "listens",
}


_MAY_IMPORT = re.compile("(?:import|from) .*(?:" + "|".join({name.partition(".")[0] for name in CLIENTS}) + ")")


def clients_of(source: str) -> Iterator[str]:
    """What a module imports that can connect."""
    for node in ast.walk(ast.parse(source)) if _MAY_IMPORT.search(source) else ():
        match node:
            case ast.Import(names=names):
                yield from (each.name for each in names if each.name in CLIENTS)
            case ast.ImportFrom(module=str(module), level=0, names=names):
                named = {module, *(f"{module}.{each.name}" for each in names), module.partition(".")[0]}
                yield from named & CLIENTS


def test_all_that_is_fetched_goes_by_the_guarded_client() -> None:
    files = [path for app in ("feeds", "project", "resources", "retry") for path in (BASE_DIR / app).rglob("*.py")]
    found = {str(path.relative_to(BASE_DIR)) for path in files if any(clients_of(path.read_text()))}
    assert {path for path in found if not path.startswith("resources/fetching/transport/")} == set(KNOWN)


def test_a_client_is_found_however_it_is_imported() -> None:
    for line in (
        "import requests",
        "from urllib import request",
        "from urllib.request import urlopen",
        "import socket",
    ):
        assert list(clients_of(line)), line
