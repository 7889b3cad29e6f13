"""A layer, and a client of the API with a token for it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client

from resources.mirror import hosts
from resources.tiles import publication
from resources.tiles.data import compiler
from resources.tiles.models import Layer
from resources.tokens import auth
from resources.tokens.models import ApiToken
from retry import stores
from tests.conftest import RedisServers

from ..conftest import LINES
from ..mirror.conftest import look_up_anew

HEADER = "segment_id,speed_kmh,free_flow_kmh\n"
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Caller:
    """Calls the API as a program would."""

    token: str = ""
    client: Client = field(default_factory=lambda: Client(raise_request_exception=False))

    def get(self, path: str, **fields: str) -> Any:
        return self.client.get(path, headers={**self._fields(), **fields})

    def delete(self, path: str) -> Any:
        return self.client.delete(path, headers=self._fields())

    def describe_url(self, url: str) -> Any:
        return self.client.get("/api/resources", {"url": url}, headers=self._fields())

    def post(self, path: str, body: bytes | str = b"", kind: str = "text/csv", **fields: str) -> Any:
        named = {name.replace("_", "-"): value for name, value in fields.items()}
        return self.client.post(path, body, content_type=kind, headers={**self._fields(), **named})

    def send(self, *rows: str, slug: str = "jams", query: str = "") -> Any:
        return self.post(f"/api/layers/{slug}/speeds{query}", HEADER + "\n".join(rows))

    def _fields(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


def problem(answer: HttpResponse, status: int) -> str:
    """The fields of a problem; fails for anything else."""
    found: Any = answer
    assert found.status_code == status, found.content
    assert found["Content-Type"] == "application/problem+json"
    assert found["Cache-Control"] == "no-store"
    body = found.json()
    assert body["status"] == status
    assert body["title"]
    return str(body["detail"])


def send(reporter: Caller, body: Any, **fields: str) -> Any:
    """Reports URLs."""
    return reporter.post("/api/resources", json.dumps(body), JSON, **fields)


@pytest.fixture(autouse=True)
def _nothing_known() -> None:
    hosts.forget_host_choices()
    look_up_anew()


@pytest.fixture(autouse=True)
def _counted(redis_servers: RedisServers) -> Iterator[None]:
    """Calls are counted on a server that runs and is empty."""
    yield
    stores.fast_client("cache").close()


@pytest.fixture
def layer(db: None) -> Layer:
    """Three lines around London, one without speeds."""
    return publication.store_layer("jams", compiler.compile_layer("lines", LINES), {"title": "Jams"})


@pytest.fixture
def caller(db: None) -> Caller:
    """A client that may change all layers."""
    return Caller(auth.issue_token(ApiToken(name="sensors", layers="*")).text)


@pytest.fixture
def reporter(db: None) -> Caller:
    """A client that may mirror files."""
    return Caller(auth.issue_token(ApiToken(name="mirror", may_mirror=True)).text)


@pytest.fixture
def stranger() -> Caller:
    """A client without a token."""
    return Caller()
