"""The API answers as its description says, for every request that schemathesis makes of it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from ..support import file_server
from ..support.file_server import FileServer
from ..support.stack import ROOT, Stack, eventually

REFUSALS = (400, 401, 403, 404, 406, 409, 413, 414, 415, 422, 428, 431, "5xx")
"""Allowed answers to calls outside the description. Another check refuses 5xx."""
ENDLESS = ("GET /api/entries/stream", "stream_changes")
"""A stream has no end: tests/flows/test_sync.py reads it."""
EXAMPLES = 5
"""Calls of each kind for each operation."""
MOST_SECONDS = 200
SEGMENT = "a-12"
LIKELIHOOD = 0.7
"""The likelihood that a call names a stored thing."""

Known = dict[str, dict[str, str]]


@dataclass(frozen=True, slots=True)
class Caller:
    """A client with a token that may do everything."""

    site: str
    token: str

    @property
    def fields(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def ask(self, method: str, path: str, **body: Any) -> Any:
        url = f"{self.site}/api/{path}"
        answer = requests.request(method, url, json=body or None, headers=self.fields, timeout=30)
        return answer.json() if answer.ok else None


@pytest.fixture(scope="module")
def caller(stack: Stack) -> Caller:
    may = ("--layers", "*", "--mirror", "--take-down", "--feeds", "--user", "admin")
    return Caller(stack.base_url, stack.manage("create_token", "described", *may).strip())


@pytest.fixture
def origin(name: str) -> Iterator[FileServer]:
    with file_server.running() as server:
        server.files = {f"/{path}/{name}": f"{path} {name}".encode() for path in ("kept", "taken")}
        yield server


@pytest.fixture
def known(stack: Stack, caller: Caller, origin: FileServer, name: str, tmp_path: Path) -> Iterator[Known]:
    """By operation, values of its parameters for stored things. Removed ones are needed nowhere else.

    In the end no feed is left, nor its followers, of those that schemathesis made up either.
    """
    feeds = {path: caller.ask("POST", "feeds", url=f"{origin.url}/{path}/{name}")["slug"] for path in "ABC"}
    yield {**_layer(stack, caller, f"l{name[:8]}", tmp_path), **_feeds(feeds), **_files(caller, origin)}
    stack.manage("shell", "-c", "from feeds.models import Feed; Feed.objects.all().delete()")


def _layer(stack: Stack, caller: Caller, slug: str, directory: Path) -> Known:
    """With the segment that the description's examples name."""
    geometry = {"type": "LineString", "coordinates": [[0, 0], [0, 10]]}
    line = {"type": "Feature", "id": SEGMENT, "properties": {}, "geometry": geometry}
    file = directory / "line.geojson"
    file.write_text(json.dumps({"type": "FeatureCollection", "features": [line]}))
    stack.change_layers("load_layer", slug, "--lines", str(file))
    eventually(lambda: caller.ask("GET", f"layers/{slug}"), 10, "main knows the layer")
    return {key: {"slug": slug} for key in ("describe_layer", "expire_layer", "send_speeds")}


def _feeds(slugs: dict[str, str]) -> Known:
    alone = {"change_feed": {"slug": slugs["B"]}, "remove_feed": {"slug": slugs["C"]}}
    reading = ("describe_feed", "feed_health", "list_entries", "fetch_feed", "follow_feed", "unfollow_feed")
    return {**alone, **{key: {"slug": slugs["A"]} for key in reading}}


def _files(caller: Caller, origin: FileServer) -> Known:
    urls = [origin.url + path for path in origin.files]
    batch = caller.ask("POST", "resources", urls=urls)["batch"]
    eventually(lambda: caller.ask("GET", f"batches/{batch}")["settled"] == len(urls), 60, "both are fetched")
    kept, taken = (item["digest"] for item in caller.ask("GET", f"batches/{batch}")["items"])
    return {
        "describe_batch": {"batch_id": batch},
        "describe_url": {"url": urls[0]},
        "describe_file": {"digest": kept},
        "take_down_file": {"digest": taken},
    }


def _configuration(known: Known) -> str:
    """schemathesis' own, in TOML. It asks for no addresses in answers: it would remove things that others know."""
    statuses = ", ".join(json.dumps(str(status)) for status in REFUSALS)
    lines = ["[checks.negative_data_rejection]", f"expected-statuses = [{statuses}]"]
    for phase in ("examples", "coverage", "fuzzing"):
        lines += [f"[phases.{phase}.extra-data-sources]", "responses = false"]
    for operation, values in known.items():
        for parameter, value in values.items():
            lines += [f'[dictionaries."{operation}"]', f"values = [{json.dumps(value)}]"]
            lines += ["[[operations]]", f'include-operation-id = "{operation}"', "[operations.parameters]"]
            lines += [f'{parameter} = {{ dictionary = "{operation}", probability = {LIKELIHOOD} }}']
    return "\n".join(lines)


def test_the_site_answers_as_its_description_says(caller: Caller, known: Known, tmp_path: Path) -> None:
    """Answers to valid calls, and to invalid ones: no call is turned away unread, and each does something."""
    (tmp_path / "schemathesis.toml").write_text(_configuration(known))
    answered = tmp_path / "answered"
    told = {"KNOWN": json.dumps(known), "ANSWERED": str(answered)}
    done = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "run", f"{caller.site}/api/openapi.json"),
            *("--header", f"Authorization: Bearer {caller.token}", "--checks", "all"),
            *("--exclude-checks", "positive_data_acceptance"),  # no schema tells which CSV is right
            *("--exclude-operation-id", ENDLESS[1]),
            *("--max-examples", str(EXAMPLES), "--seed", "1", "--request-timeout", "10", "--no-color"),
        ],
        cwd=tmp_path,  # it leaves files
        env={**os.environ, **told, "PYTHONPATH": str(ROOT), "SCHEMATHESIS_HOOKS": "tests.support.schemathesis_hooks"},
        capture_output=True,
        text=True,
        timeout=MOST_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    lines = [line.split(" ", 1) for line in answered.read_text().splitlines()]
    assert "429" not in {status for status, _ in lines}
    assert (
        described(caller) - {ENDLESS[0]} - {operation for status, operation in lines if status.startswith("2")} == set()
    )


def described(caller: Caller) -> set[str]:
    """All operations, as `GET /api/layers`."""
    paths = caller.ask("GET", "openapi.json")["paths"]
    return {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
