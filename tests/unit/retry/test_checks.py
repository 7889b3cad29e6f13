"""System checks: each contradiction by its id."""

from typing import Any

import pytest
from django.core.checks import run_checks
from pytest_django import Settings


@pytest.fixture(autouse=True)
def _as_a_site(settings: Settings) -> None:
    """Tests wait longer for Redis than any site may."""
    settings.RETRY_REDIS_TIMEOUT = 0.3


def found() -> set[str | None]:
    return {
        message.id
        for message in run_checks(include_deployment_checks=True)
        if message.id and message.id.startswith("retry.")
    }


def test_the_sites_own_settings_pass_also_without_skipping_and_ageing(settings: Settings) -> None:
    assert found() == set()
    settings.RETRY_SKIP_SECONDS = settings.RETRY_AGE_SECONDS = 0
    assert found() == set()


@pytest.mark.parametrize(
    ("changes", "identifier"),
    [
        ({"DEFAULT_RETRY_TIMEOUT": 0}, "retry.E001"),
        ({"DEFAULT_RETRY_TIMEOUT": 45}, "retry.E002"),
        ({"CACHES": {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}}, "retry.E003"),
        ({"PUBLIC_URL": ""}, "retry.E004"),
        ({"PUBLIC_URL": "", "RETRY_AFTER_SERVER": "https://wait.example/wait", "DEBUG": True}, "retry.E004"),
        ({"RETRY_MAX_WAITS": 0}, "retry.E005"),
        ({"RETRY_DELIVERY": "carrier pigeon"}, "retry.E006"),
        ({"RETRY_DELIVERY": "inline", "RETRY_AFTER_SERVER": "https://wait.example/wait"}, "retry.E006"),
        ({"RETRY_DELIVERY": "internal", "RETRY_AFTER_SERVER": "http://127.0.0.1:8001/wait"}, "retry.E006"),
        *(
            ({"RETRY_AFTER_SERVER": server}, "retry.E007")
            for server in ("//evil.example", "https://wait.example", "/", "/wait?x=1", "/a b;}")
        ),
        ({"RETRY_TICKET_SECONDS": 30}, "retry.E008"),
        ({"PAGE_PATIENCE_SECONDS": -1}, "retry.E025"),
        *(
            ({"PUBLIC_URL": url}, "retry.E009")
            for url in ("a.example", "https://a.example/maps", "http://127.0.0.1:99999", "http://127.0.0.1:port")
        ),
        ({"REDIS_URL": "memcached://x"}, "retry.E010"),
        ({"REDIS_URL": "redis+sentinel://host:26379"}, "retry.E010"),
        ({"RETRY_LEASE_SECONDS": 1}, "retry.E011"),
        ({"RETRY_BACKOFF_BASE_SECONDS": 0}, "retry.E012"),
        ({"RETRY_LANES": {"paint.now": {"limit": 0, "workers": 1}}}, "retry.E013"),
        *(({"RETRY_DONE_SECONDS": seconds}, "retry.E014") for seconds in (0, 60)),
        *(({"RETRY_REDIS_TIMEOUT": seconds}, "retry.E015") for seconds in (0, 1.1)),
        ({"RETRY_MAX_CLIENTS": 0}, "retry.E016"),
        ({"ALLOWED_HOSTS": ["tiles.example"], "PUBLIC_URL": "http://127.0.0.1:8000"}, "retry.E017"),
        ({"TRUSTED_PROXIES": ("bogus",)}, "retry.E018"),
        *(
            ({"RETRY_AFTER_SERVER": path}, "retry.E019")
            for path in ("/tiles", "/api", "/admin", "/healthz", "/static/x", "/layers/a", "/refused", "/staticmap")
        ),
        ({"RETRY_AFTER_SERVER": "http://127.0.0.1:8000/tiles"}, "retry.E019"),
        *(({"RETRY_LANES": {"a": {"limit": 1, "workers": 1, "up": up}}}, "retry.E021") for up in ("a", "b")),
        ({"RETRY_LANES": {n: {"limit": 1, "workers": 1, "up": "b"} for n in ("a", "b")}}, "retry.E021"),
        ({"RETRY_SKIP_SECONDS": 14, "DEFAULT_RETRY_TIMEOUT": 5}, "retry.E022"),
        ({"RETRY_SKIP_SECONDS": 25}, "retry.E022"),
        *(({name: -1}, "retry.E023") for name in ("RETRY_AGE_SECONDS", "RETRY_SKIP_BACKLOG_SECONDS")),
        *(
            ({"RETRY_LANES": {"a": {"limit": 1, "workers": 1, hook: "retry.nowhere.publish"}}}, "retry.E024")
            for hook in ("publisher", "line")
        ),
        *(({"RETRY_LANE_WORKERS": path}, "retry.E026") for path in ("retry.nowhere.count", "retry.conf.Any", "count")),
        *(({"POPULARITY_HALF_LIFE_SECONDS": seconds}, "retry.E030") for seconds in (0, float("nan"))),
        *(({name: 0}, "retry.E031") for name in ("POPULARITY_KEYS", "POPULAR_REQUESTS")),
        ({"RETRY_MAX_WAITS": 3}, "retry.W001"),
        ({"REDIS_URL": "redis://a/0", "CACHE_URL": "redis://a/0"}, "retry.W002"),
        ({"HOT_SECONDS": 1}, "retry.W003"),
    ],
)
def test_a_contradiction_is_found(settings: Settings, changes: dict[str, Any], identifier: str) -> None:
    for name, value in changes.items():
        setattr(settings, name, value)
    assert identifier in found()
