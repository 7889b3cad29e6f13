"""/healthz says of each part whether it works, and is never slow."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.test import Client
from pytest_django import Settings

from project import health, workers
from project.health import UnhealthyError, examine
from resources.fetching.queues import frontier
from retry import connections
from retry.sweeping import sweep
from tests import clock
from tests.conftest import RedisServers

QUEUES = ["paint.now", "paint.refresh", "paint.warm", "work"]


@pytest.fixture(autouse=True)
def _nothing_examined_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_recent", health.Recent())


def test_many_who_ask_share_an_examination(monkeypatch: pytest.MonkeyPatch) -> None:
    examined: list[str] = []
    monkeypatch.setattr(health, "PARTS", {"a": lambda: examined.append("a")})
    recent = health.Recent()
    assert recent.parts() is recent.parts()
    assert examined == ["a"]


def test_an_examination_that_hangs_holds_one_thread_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, released = threading.Event(), threading.Event()

    def check() -> None:
        begun.set()
        assert released.wait(5)

    monkeypatch.setattr(health, "KEEP_SECONDS", 0)
    monkeypatch.setattr(health, "PARTS", {"a": lambda: None})
    recent = health.Recent()
    known = recent.parts()
    monkeypatch.setattr(health, "PARTS", {"b": check})
    with ThreadPoolExecutor(1) as threads:
        examining = threads.submit(recent.parts)
        assert begun.wait(5)
        assert recent.parts() is known
        released.set()
        assert list(examining.result(5)) == ["b"]


def test_nobody_is_told_what_was_found_long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, released = threading.Event(), threading.Event()

    def check() -> None:
        begun.set()
        assert released.wait(5)

    monkeypatch.setattr(health, "PARTS", {"a": check})
    recent = health.Recent()
    with ThreadPoolExecutor(2) as threads:
        asking = [threads.submit(recent.parts) for _ in range(2)]
        assert begun.wait(5)
        assert not any(one.done() for one in asking)
        released.set()
        assert [list(one.result(5)) for one in asking] == [["a"], ["a"]]


def test_a_site_that_nobody_sweeps_is_not_healthy(redis_servers: RedisServers) -> None:
    assert examine({"sweeper": health.PARTS["sweeper"]}, 1)["sweeper"]["ok"] is False
    sweep()
    assert examine({"sweeper": health.PARTS["sweeper"]}, 1)["sweeper"]["ok"] is True


def test_a_part_that_works_says_how_long_it_took() -> None:
    finding = examine({"a": lambda: None}, 1)["a"]
    assert finding["ok"] is True
    assert finding["ms"] >= 0


def test_a_part_that_fails_does_not_tell_secrets() -> None:
    def check() -> None:
        raise OSError("password in here")

    assert examine({"a": check}, 1)["a"] == {"ok": False, "error": "OSError"}


def test_a_part_that_answers_wrongly_says_what_is_wrong() -> None:
    def check() -> None:
        raise UnhealthyError("no worker for work")

    assert examine({"a": check}, 1)["a"]["error"] == "no worker for work"


def test_a_part_that_hangs_does_not_hold_up_the_answer() -> None:
    released = threading.Event()

    def check() -> None:
        released.wait(10)

    began = clock.seconds()
    findings = examine({"hangs": check, "works": lambda: None}, 0.2)
    assert clock.seconds() - began < 1
    assert (findings["hangs"]["ok"], findings["works"]["ok"]) == (False, True)
    released.set()


@pytest.mark.django_db(transaction=True)
def test_the_site_is_healthy_when_every_part_is(redis_servers: RedisServers, client: Client) -> None:
    workers.sign_in(QUEUES)
    connections.run(frontier.sign_in("w"))
    sweep()
    answer = client.get("/healthz")
    assert answer.status_code == 200, answer.content
    assert set(answer.json()["parts"]) == set(health.PARTS)
    assert answer["Cache-Control"] == "no-store"


@pytest.mark.django_db(transaction=True)
def test_a_queue_without_a_worker_is_named(redis_servers: RedisServers, client: Client) -> None:
    workers.sign_in(QUEUES[1:])
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
    assert answer.status_code == 503
    assert [name for name, part in answer.json()["parts"].items() if not part["ok"]] == [
        *("cache", "workers", "sweeper", "fetch")
    ]


@pytest.mark.django_db(transaction=True)
def test_a_waiting_instance_that_is_gone_is_named(
    redis_servers: RedisServers, client: Client, settings: Settings
) -> None:
    workers.sign_in(QUEUES)
    settings.RETRY_INSTANCE = "unix:/nonexistent/retry.sock"
    assert client.get("/healthz").json()["parts"]["retry"] == {"ok": False, "error": "FileNotFoundError"}


def test_signing_in_survives_a_server_that_is_gone(redis_servers: RedisServers) -> None:
    redis_servers.state.stop()
    workers.sign_in(QUEUES)


def test_a_worker_that_fell_silent_is_missed(redis_servers: RedisServers) -> None:
    workers.sign_in(QUEUES)
    assert workers.missing(QUEUES) == []
    assert 0 < redis_servers.state.client.ttl("workers:work") <= workers.SIGN_IN_SECONDS
    redis_servers.state.client.delete("workers:work")
    assert workers.missing(QUEUES) == ["work"]
