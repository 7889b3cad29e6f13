"""/healthz reports the state of each part, and is never slow."""

import threading
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock

import pytest
from django.test import Client
from pytest_django import Settings

from project import celery, health
from project.health import UnhealthyError, examine_parts
from resources.fetch.frontier import queue
from retry import stores
from retry.worker import sweep_claims
from tests.conftest import RedisServers
from tests.support import clock

QUEUES = ["paint.now", "paint.refresh", "paint.warm", "work"]


@pytest.fixture(autouse=True)
def _nothing_examined_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_recent_health", health.RecentHealth())


def test_many_who_ask_share_an_examination(monkeypatch: pytest.MonkeyPatch) -> None:
    examined: list[str] = []
    monkeypatch.setattr(health, "HEALTH_PARTS", {"a": lambda: examined.append("a")})
    recent = health.RecentHealth()
    assert recent.parts() is recent.parts()
    assert examined == ["a"]


class Hanging:
    """A check that does not end until it is released."""

    def __init__(self) -> None:
        self.begun, self.released = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.begun.set()
        assert self.released.wait(5)


def test_an_examination_that_hangs_holds_one_thread_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    check = Hanging()
    monkeypatch.setattr(health, "FINDING_KEPT_SECONDS", 0)
    monkeypatch.setattr(health, "HEALTH_PARTS", {"a": lambda: None})
    recent = health.RecentHealth()
    known = recent.parts()
    monkeypatch.setattr(health, "HEALTH_PARTS", {"b": check})
    with ThreadPoolExecutor(1) as threads:
        examining = threads.submit(recent.parts)
        assert check.begun.wait(5)
        assert recent.parts() is known
        check.released.set()
        assert list(examining.result(5)) == ["b"]


def test_nobody_is_told_what_was_found_long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    check = Hanging()
    monkeypatch.setattr(health, "HEALTH_PARTS", {"a": check})
    recent = health.RecentHealth()
    with ThreadPoolExecutor(2) as threads:
        asking = [threads.submit(recent.parts) for _ in range(2)]
        assert check.begun.wait(5)
        assert not any(one.done() for one in asking)
        check.released.set()
        assert [list(one.result(5)) for one in asking] == [["a"], ["a"]]


def test_a_site_that_nobody_sweeps_is_not_healthy(redis_servers: RedisServers) -> None:
    sweeper = {"sweeper": health.HEALTH_PARTS["sweeper"]}
    assert examine_parts(sweeper, 1)["sweeper"]["ok"] is False
    sweep_claims()
    assert examine_parts(sweeper, 1)["sweeper"]["ok"] is True


def test_a_part_that_works_says_how_long_it_took() -> None:
    finding = examine_parts({"a": lambda: None}, 1)["a"]
    assert finding["ok"] is True
    assert finding["ms"] >= 0


@pytest.mark.parametrize(
    ("error", "told"),
    [(OSError("password in here"), "OSError"), (UnhealthyError("no worker for work"), "no worker for work")],
)
def test_a_part_that_fails_does_not_tell_secrets_but_what_it_answered_wrongly(error: Exception, told: str) -> None:
    assert examine_parts({"a": Mock(side_effect=error)}, 1)["a"] == {"ok": False, "error": told}


def test_a_part_that_hangs_does_not_hold_up_the_answer() -> None:
    check = Hanging()
    began = clock.seconds()
    findings = examine_parts({"hangs": check, "works": lambda: None}, 0.2)
    assert clock.seconds() - began < 1
    assert (findings["hangs"]["ok"], findings["works"]["ok"]) == (False, True)
    check.released.set()


@pytest.mark.django_db(transaction=True)
def test_the_site_is_healthy_when_every_part_is(redis_servers: RedisServers, client: Client) -> None:
    celery.sign_in_queues(QUEUES)
    stores.run_steps(queue.sign_in_fetcher("w"))
    sweep_claims()
    answer = client.get("/healthz")
    assert answer.status_code == 200, answer.content
    assert set(answer.json()["parts"]) == set(health.HEALTH_PARTS)
    assert answer["Cache-Control"] == "no-store"


@pytest.mark.django_db(transaction=True)
def test_a_queue_without_a_worker_is_named(redis_servers: RedisServers, client: Client) -> None:
    celery.sign_in_queues(QUEUES[1:])
    answer = client.get("/healthz")
    assert answer.status_code == 503
    assert answer.json()["parts"]["workers"]["error"] == "no worker for paint.now"


@pytest.mark.django_db(transaction=True)
def test_a_site_without_a_fetcher_is_not_whole(redis_servers: RedisServers, client: Client) -> None:
    assert "no fetcher" in client.get("/healthz").json()["parts"]["fetch"]["error"]


@pytest.mark.django_db(transaction=True)
def test_a_server_that_is_gone_is_named(redis_servers: RedisServers, client: Client) -> None:
    redis_servers.cache.stop()
    answer = client.get("/healthz")
    failing = [name for name, part in answer.json()["parts"].items() if not part["ok"]]
    assert (answer.status_code, failing) == (503, ["cache", "workers", "sweeper", "fetch"])


@pytest.mark.django_db(transaction=True)
def test_a_waiting_instance_that_is_gone_is_named(
    redis_servers: RedisServers, client: Client, settings: Settings
) -> None:
    celery.sign_in_queues(QUEUES)
    settings.RETRY_INSTANCE = "unix:/nonexistent/retry.sock"
    assert client.get("/healthz").json()["parts"]["retry"] == {"ok": False, "error": "FileNotFoundError"}


def test_signing_in_survives_a_server_that_is_gone(redis_servers: RedisServers) -> None:
    redis_servers.state.stop()
    celery.sign_in_queues(QUEUES)


def test_a_worker_that_fell_silent_is_missed(redis_servers: RedisServers) -> None:
    celery.sign_in_queues(QUEUES)
    assert celery.unserved_queues(QUEUES) == []
    assert 0 < redis_servers.state.client.ttl("workers:work") <= celery.WORKER_SIGN_IN_SECONDS
    redis_servers.state.client.delete("workers:work")
    assert celery.unserved_queues(QUEUES) == ["work"]
