"""docs/add-your-own.md: its code, as it stands there, serves, defers and prepares."""

import base64
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import current_app
from django.http import HttpResponse
from django.test import Client
from pytest_django import Settings

from project.paths import BASE_DIR
from retry.conf import Conf
from tests.conftest import RedisServers

PAGE = (BASE_DIR / "docs" / "add-your-own.md").read_text()
BLOCKS = dict(re.findall(r"```python\n# (\S+\.py)[^\n]*\n(.*?)```", PAGE, re.DOTALL))
ORDINAL, ANSWER = 2000, b"17389\n"


@pytest.fixture
def site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Settings, redis_servers: RedisServers
) -> Iterator[Client]:
    """The page's app, installed and reachable."""
    (tmp_path / "primes").mkdir()
    (tmp_path / "primes" / "__init__.py").touch()
    for path in ("primes/tasks.py", "primes/urls.py", "primes/views.py"):
        (tmp_path / path).write_text(BLOCKS[path])
    monkeypatch.syspath_prepend(tmp_path)
    settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, "primes"]
    settings.ROOT_URLCONF = "primes.urls"
    __import__("primes.tasks")  # as Celery's autodiscovery does
    yield Client()
    for name in [name for name in sys.modules if name.partition(".")[0] == "primes"]:
        del sys.modules[name]
    current_app.tasks.pop("primes.find", None)


def work_off(servers: RedisServers, lane: str) -> None:
    """Does what a worker does with the one message of a lane."""
    [queued] = servers.state.client.lrange(lane, 0, -1)
    servers.state.client.delete(lane)
    message = json.loads(queued)
    arguments, named, _ = json.loads(base64.b64decode(message["body"]))
    current_app.tasks[message["headers"]["task"]](*arguments, **named)


def get(site: Client, ordinal: int) -> HttpResponse:
    return site.get(f"/primes/{ordinal}")  # type: ignore[return-value]


def test_the_examples_content_is_deferred_prepared_and_served(site: Client, redis_servers: RedisServers) -> None:
    deferred = get(site, ORDINAL)
    assert deferred.status_code == 302
    assert deferred["Location"].startswith(f"/retry_after?redirect=/primes/{ORDINAL}&")
    work_off(redis_servers, "paint.now")
    served = get(site, ORDINAL)
    assert (served.status_code, served.content) == (200, ANSWER)


def test_the_examples_own_word_is_what_the_client_is_told(site: Client, redis_servers: RedisServers) -> None:
    get(site, 1_000_000)
    work_off(redis_servers, "paint.now")
    refused = get(site, 1_000_000)
    assert refused.status_code == 404
    assert b"such a large prime" in refused.content


def test_the_example_answers_for_unknown_things_itself(site: Client, redis_servers: RedisServers) -> None:
    assert get(site, 0).status_code == 404
    assert not redis_servers.state.client.exists("paint.now")


def test_the_settings_for_another_project_are_those_that_are_read() -> None:
    names: dict[str, object] = {"INSTALLED_APPS": []}
    exec(BLOCKS["mysite/settings.py"], names)
    ours = {name for name in names if name.isupper() and not name.startswith(("CELERY_", "CACHES", "INSTALLED_APPS"))}
    assert ours <= set(Conf.__dataclass_fields__)
