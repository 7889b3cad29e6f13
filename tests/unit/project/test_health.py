"""/healthz reports the state of each part, and is never slow; /metrics is for this machine and token holders."""

import os
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from unittest.mock import Mock

import pytest
from django.conf import settings
from django.test import Client
from pytest_django import Settings

from project import exporter, health, lane_workers
from project.health import PartProbe, UnhealthyError, examine_parts
from resources.fetch.frontier import queue
from retry import lanes, stores
from retry.worker import sweep_claims
from tests.conftest import RedisServers
from tests.support import clock

QUEUES = ["paint.now", "paint.pages", "paint.refresh", "paint.warm", "work", settings.MACHINE_QUEUE]


@pytest.fixture(autouse=True)
def _nothing_examined_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_recent_health", health.RecentHealth())


def test_many_requests_share_an_examination(monkeypatch: pytest.MonkeyPatch) -> None:
    examined: list[str] = []
    monkeypatch.setattr(health, "HEALTH_PARTS", {"a": PartProbe(lambda: examined.append("a"))})
    recent = health.RecentHealth()
    assert recent.parts() is recent.parts()
    assert examined == ["a"]


class Hanging:
    """A check that does not end until it is released."""

    def __init__(self) -> None:
        self.begun, self.released, self.number = threading.Event(), threading.Event(), 0

    def __call__(self) -> None:
        self.number += 1
        self.begun.set()
        assert self.released.wait(5)


def test_an_examination_that_hangs_holds_one_thread_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    check = Hanging()
    monkeypatch.setattr(health, "FINDING_KEPT_SECONDS", 0)
    monkeypatch.setattr(health, "HEALTH_PARTS", {"a": PartProbe(lambda: None)})
    recent = health.RecentHealth()
    known = recent.parts()
    monkeypatch.setattr(health, "HEALTH_PARTS", {"b": PartProbe(check)})
    with ThreadPoolExecutor(1) as threads:
        examining = threads.submit(recent.parts)
        assert check.begun.wait(5)
        assert recent.parts() is known
        check.released.set()
        assert list(examining.result(5)) == ["b"]


def test_a_finding_of_long_ago_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    check = Hanging()
    monkeypatch.setattr(health, "HEALTH_PARTS", {"a": PartProbe(check)})
    recent = health.RecentHealth()
    with ThreadPoolExecutor(2) as threads:
        asking = [threads.submit(recent.parts) for _ in range(2)]
        assert check.begun.wait(5)
        assert not any(one.done() for one in asking)
        check.released.set()
        assert [list(one.result(5)) for one in asking] == [["a"], ["a"]]


@pytest.mark.parametrize(
    ("error", "told"),
    [(OSError("password in here"), "OSError"), (UnhealthyError("no worker for work"), "no worker for work")],
)
def test_a_part_that_fails_does_not_tell_secrets_but_what_it_answered_wrongly(error: Exception, told: str) -> None:
    assert examine_parts({"a": PartProbe(Mock(side_effect=error))}, 1)["a"] == {"ok": False, "error": told}


def test_a_part_that_hangs_does_not_hold_up_the_answer() -> None:
    check = Hanging()
    began = clock.seconds()
    findings = examine_parts({"hangs": PartProbe(check), "works": PartProbe(lambda: None)}, 0.2)
    assert clock.seconds() - began < 1
    assert (findings["hangs"]["ok"], findings["works"]["ok"], findings["works"]["ms"] >= 0) == (False, True, True)
    check.released.set()


def test_a_part_that_hangs_makes_no_other_part_ill_however_often_it_is_examined() -> None:
    check = Hanging()
    parts = {"hangs": PartProbe(check), "works": PartProbe(lambda: None)}
    findings = [examine_parts(parts, 0.02) for _ in range(10)]
    assert [(found["hangs"]["ok"], found["works"]["ok"]) for found in findings] == [(False, True)] * 10
    assert check.number == 1
    check.released.set()
    assert parts["hangs"].begin("hangs").result(5)["ok"]


@pytest.mark.django_db(transaction=True)
def test_the_site_is_healthy_when_every_part_is(redis_servers: RedisServers, client: Client) -> None:
    lane_workers.sign_in_queues(QUEUES)
    stores.run_steps(queue.sign_in_fetcher("w"))
    sweep_claims()
    answer = client.get("/healthz")
    assert answer.status_code == 200, answer.content
    assert set(answer.json()["parts"]) == set(health.HEALTH_PARTS)
    assert answer["Cache-Control"] == "no-store"


@pytest.mark.django_db(transaction=True)
def test_a_machine_whose_workers_have_lost_what_they_need_is_named(
    redis_servers: RedisServers, client: Client, settings: Settings
) -> None:
    settings.MACHINE = "b"
    lane_workers.sign_in_queues(QUEUES)
    lanes.note_unfit()
    workers = client.get("/healthz").json()["parts"]["workers"]
    assert workers == {"ok": False, "error": "workers lack the database or the storage: b"}
    settings.MACHINE = "a"
    assert lanes.has_other_machine("paint.now") is False
    redis_servers.state.client.delete("workers:unfit")
    assert lanes.has_other_machine("paint.now") is True


@pytest.mark.django_db(transaction=True)
def test_what_has_not_signed_in_or_is_gone_is_named(
    redis_servers: RedisServers, client: Client, settings: Settings
) -> None:
    lane_workers.sign_in_queues(QUEUES[1:])
    settings.RETRY_INSTANCE = "unix:/nonexistent/retry.sock"
    answer = client.get("/healthz")
    errors = {name: part["error"] for name, part in answer.json()["parts"].items() if not part["ok"]}
    assert (answer.status_code, answer["Retry-After"]) == (503, "1")
    assert errors == {
        **{"workers": "no worker for paint.now", "fetch": "no fetcher seen lately: fetch does not run"},
        **{"sweeper": "no sweep for 10 s: beat or work does not run", "retry": "FileNotFoundError"},
    }


@pytest.mark.django_db(transaction=True)
def test_a_server_that_is_gone_is_named(redis_servers: RedisServers, client: Client) -> None:
    redis_servers.cache.stop()
    answer = client.get("/healthz")
    failing = [name for name, part in answer.json()["parts"].items() if not part["ok"]]
    assert (answer.status_code, failing) == (503, ["cache", "workers", "sweeper", "fetch"])


def test_a_machine_is_ready_until_it_drains_whatever_is_away(
    client: Client, settings: Settings, tmp_path: Path
) -> None:
    settings.DRAIN_FILE = tmp_path / "draining"
    assert [client.get(f"/healthz/{probe}").status_code for probe in ("live", "ready")] == [200, 200]
    settings.DRAIN_FILE.touch()
    answers = [client.get(f"/healthz/{probe}") for probe in ("live", "ready")]
    assert [answer.status_code for answer in answers] == [200, 503]
    assert answers[1]["Retry-After"] == "1"


class OwnWaitingInstance:
    """A waiting instance at a socket of its own, which answers as long as it is not silent."""

    def __init__(self, path: Path) -> None:
        self.address, self.asked, self.status, self.is_silent = f"unix:{path}", 0, 400, False
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(path))
        self._server.listen()
        self._held: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while connection := self._server.accept()[0]:
                self.asked += 1
                self._held.append(connection)
                if not self.is_silent:
                    connection.recv(4096)
                    connection.sendall(f"HTTP/1.1 {self.status} X\r\nContent-Length: 0\r\n\r\n".encode())

    def end(self) -> None:
        with suppress(OSError):  # it has ended
            self._server.shutdown(socket.SHUT_RDWR)
        for each in (self._server, *self._held):
            each.close()


@pytest.fixture
def own_instance(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OwnWaitingInstance]:
    """The waiting instance of a machine with all roles. Each request has it asked anew."""
    instance = OwnWaitingInstance(tmp_path / "retry.sock")
    settings.RETRY_INSTANCE, settings.DRAIN_FILE = instance.address, tmp_path / "draining"
    monkeypatch.setattr(health, "_own_instance", health.OwnInstance())
    monkeypatch.setattr(health, "FINDING_KEPT_SECONDS", 0)
    monkeypatch.setattr(health, "OWN_INSTANCE_TIMEOUT_SECONDS", 0.1)
    yield instance
    instance.end()


def test_a_machine_is_ready_while_its_waiting_instance_answers_though_the_stores_are_away(
    redis_servers: RedisServers, client: Client, own_instance: OwnWaitingInstance
) -> None:
    redis_servers.state.stop()
    redis_servers.cache.stop()
    assert client.get("/healthz/ready").status_code == 200
    own_instance.end()
    answer = client.get("/healthz/ready")
    assert (answer.status_code, answer["Retry-After"]) == (503, "1")
    assert "waiting instance does not answer" in answer.json()["detail"]
    assert client.get("/healthz/live").status_code == 200


def test_a_waiting_instance_that_answers_something_else_is_not_up(
    client: Client, own_instance: OwnWaitingInstance
) -> None:
    own_instance.status = 500
    assert client.get("/healthz/ready").status_code == 503


def test_a_busy_waiting_instance_takes_no_machine_out_and_a_hung_one_does(
    client: Client, own_instance: OwnWaitingInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_instance.is_silent = True
    began = clock.seconds()
    assert client.get("/healthz/ready").status_code == 200
    assert clock.seconds() - began < 1
    monkeypatch.setattr(health, "MAX_SILENCE_SECONDS", 0)
    assert client.get("/healthz/ready").status_code == 503
    own_instance.is_silent = False
    assert client.get("/healthz/ready").status_code == 200
    monkeypatch.setattr(health, "MAX_SILENCE_SECONDS", 5)
    own_instance.is_silent = True
    assert client.get("/healthz/ready").status_code == 200  # its silence begins anew


def test_many_checks_ask_the_waiting_instance_once(
    client: Client, own_instance: OwnWaitingInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "FINDING_KEPT_SECONDS", 60)
    assert [client.get("/healthz/ready").status_code for _ in range(5)] == [200] * 5
    assert own_instance.asked == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("ROLES", roles) for roles in (["main", "retry"], ["front", "main"])),
        ("RETRY_SERVERS", ["10.0.0.5:8101"]),
        ("MAIN_SERVERS", ["10.0.0.5:8100"]),
        ("MAIN_LISTEN", "10.0.0.5:8100"),
        ("RETRY_INSTANCE", "http://10.0.0.5:8101"),
    ],
)
def test_readiness_does_not_depend_on_waiting_instances_of_other_machines_or_of_other_fronts(
    client: Client, own_instance: OwnWaitingInstance, settings: Settings, name: str, value: object
) -> None:
    own_instance.end()
    setattr(settings, name, value)
    assert client.get("/healthz/ready").status_code == 200


def test_signing_in_survives_a_server_that_is_gone(redis_servers: RedisServers) -> None:
    redis_servers.state.stop()
    lane_workers.sign_in_queues(QUEUES)


def test_a_worker_that_fell_silent_is_missed(redis_servers: RedisServers) -> None:
    lane_workers.sign_in_queues(QUEUES)
    assert lane_workers.list_unserved_queues(QUEUES) == []
    assert 0 < redis_servers.state.client.ttl("workers:work") <= lane_workers.WORKER_SIGN_IN_SECONDS
    redis_servers.state.client.delete("workers:work")
    assert lane_workers.list_unserved_queues(QUEUES) == ["work"]


EMPTY = bytes(8)
"""A file of figures without any."""

ALLOWED = {
    "from this machine": {"REMOTE_ADDR": "127.0.0.1"},
    "from this machine, IPv6": {"REMOTE_ADDR": "::1"},
    "from this machine by nginx": {"REMOTE_ADDR": "", "HTTP_X_REAL_IP": "127.0.0.1"},
    "by nginx' own socket": {"REMOTE_ADDR": "", "HTTP_X_REAL_IP": "unix:"},
    "by a trusted proxy": {"REMOTE_ADDR": "10.0.0.1", "HTTP_X_REAL_IP": "127.0.0.1"},
    "by a front on another machine": {"REMOTE_ADDR": "10.0.1.7", "HTTP_X_REAL_IP": "127.0.0.1"},
    "with the token": {"REMOTE_ADDR": "192.0.2.1", "HTTP_AUTHORIZATION": "Bearer right"},
}
REFUSED = {
    "from elsewhere": {"REMOTE_ADDR": "192.0.2.1"},
    "from elsewhere by nginx": {"REMOTE_ADDR": "", "HTTP_X_REAL_IP": "192.0.2.1"},
    "pretending": {"REMOTE_ADDR": "192.0.2.1", "HTTP_X_REAL_IP": "127.0.0.1"},
    "from elsewhere by a front on another machine": {"REMOTE_ADDR": "10.0.1.7", "HTTP_X_REAL_IP": "192.0.2.1"},
    "pretending to be nginx": {"REMOTE_ADDR": "192.0.2.1", "HTTP_X_REAL_IP": "unix:"},
    "passed on by a proxy on this machine": {"REMOTE_ADDR": "127.0.0.1", "HTTP_X_FORWARDED_FOR": "192.0.2.1"},
    "without any address": {"REMOTE_ADDR": ""},
    "with a wrong token": {"REMOTE_ADDR": "192.0.2.1", "HTTP_AUTHORIZATION": "Bearer wrong"},
    "with a wrong scheme": {"REMOTE_ADDR": "192.0.2.1", "HTTP_AUTHORIZATION": "Basic right"},
    "with a token that is not ASCII": {"REMOTE_ADDR": "192.0.2.1", "HTTP_AUTHORIZATION": "Bearer r\u00efght"},
}


@pytest.mark.parametrize("sender", [*ALLOWED, *REFUSED])
def test_metrics_are_for_this_machine_and_holders_of_the_token(client: Client, settings: Settings, sender: str) -> None:
    settings.METRICS_TOKEN, settings.TRUSTED_PROXIES, settings.FRONTS = "right", ("10.0.0.1",), ("10.0.1.0/24",)
    answer = client.get("/metrics", **(ALLOWED | REFUSED)[sender])  # type: ignore[arg-type]
    assert answer.status_code == (200 if sender in ALLOWED else 403)
    assert (b"# HELP tarry_answers" in answer.content) is (sender in ALLOWED)
    assert answer["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"REMOTE_ADDR": "127.0.0.1"}, 200),
        ({"REMOTE_ADDR": "192.0.2.1", "HTTP_AUTHORIZATION": "Bearer right"}, 200),
        ({"REMOTE_ADDR": "192.0.2.1", "HTTP_AUTHORIZATION": "Bearer wrong"}, 403),
        ({"REMOTE_ADDR": "192.0.2.1"}, 403),
        ({"REMOTE_ADDR": "127.0.0.1", "HTTP_X_FORWARDED_FOR": "192.0.2.1"}, 403),
        ({"REMOTE_ADDR": "127.0.0.1", "PATH_INFO": "/healthz"}, 404),
        ({"REMOTE_ADDR": "127.0.0.1", "REQUEST_METHOD": "POST"}, 405),
    ],
)
def test_the_exporter_answers_this_machine_and_holders_of_the_token(
    monkeypatch: pytest.MonkeyPatch, asked: dict[str, str], status: int
) -> None:
    monkeypatch.setenv("METRICS_TOKEN", "right")
    answered = Mock()
    [body] = exporter.application({"PATH_INFO": "/metrics", "REQUEST_METHOD": "GET"} | asked, answered)
    assert answered.call_args.args[0].startswith(f"{status} ")
    assert (b"# HELP tarry_answers" in body) is (status == 200)


def test_without_a_token_the_exporter_answers_this_machine_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("METRICS_TOKEN", raising=False)
    for address in ("::1", "192.0.2.1"):
        asked = {"REMOTE_ADDR": address, "HTTP_AUTHORIZATION": "Bearer "}
        exporter.application({"PATH_INFO": "/metrics", "REQUEST_METHOD": "GET"} | asked, answered := Mock())
        assert answered.call_args.args[0] == ("200 OK" if address == "::1" else "403 Forbidden")


@pytest.mark.parametrize(
    ("setting", "value", "status"), [("METRICS_TOKEN", "", 403), ("OBSERVE", False, 404)], ids=["no token", "off"]
)
def test_metrics_can_be_switched_off_for_others_or_for_all(
    client: Client, settings: Settings, setting: str, value: object, status: int
) -> None:
    setattr(settings, setting, value)
    address = "192.0.2.1" if setting == "METRICS_TOKEN" else "127.0.0.1"
    assert client.get("/metrics", REMOTE_ADDR=address, HTTP_AUTHORIZATION="Bearer ").status_code == status


def test_figures_are_those_of_all_living_processes(
    client: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    assert b"tarry_answers" not in client.get("/metrics").content
    left_behind = [tmp_path / f"gauge_livesum_{pid}.db" for pid in (os.getpid(), 0)]
    for file in left_behind:
        file.write_bytes(EMPTY)
    (tmp_path / "counter_1.db").touch()  # of a process that has just begun to count
    assert client.get("/metrics").status_code == 200
    assert [file.exists() for file in left_behind] == [True, False]
