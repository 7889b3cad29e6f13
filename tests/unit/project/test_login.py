"""Passwords of the admin cannot be guessed, and a user with the right one gets in."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from project import login, middleware
from project.login import SignInAttempt
from retry import stores
from retry.conf import StateShare
from tests.conftest import RedisServers

MOMENT = 1_795_000_000.0 // login.GUESS_WINDOW_SECONDS * login.GUESS_WINDOW_SECONDS + 100
LEFT = login.GUESS_WINDOW_SECONDS - 100
PASSWORD = "fifteen white horses"

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_servers")]


@pytest.fixture(autouse=True)
def _few_attempts(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.ADMIN_SIGN_INS, settings.ADMIN_SIGN_INS_PER_ACCOUNT = 3, 5
    settings.TRUSTED_PROXIES = ("10.0.0.1",)
    monkeypatch.setattr("project.login.time.time", lambda: MOMENT)
    User.objects.create_superuser("owner", password=PASSWORD)


@pytest.fixture
def full_state(redis_servers: RedisServers) -> Iterator[RedisServers]:
    redis_servers.state.client.config_set("maxmemory", "1")
    yield redis_servers
    redis_servers.state.client.config_set("maxmemory", "0")


def sign_in(client: Client, password: str, address: str = "192.0.2.1", username: str = "owner") -> Any:
    named = {"username": username, "password": password}
    return client.post("/admin/login/?next=/admin/", named, REMOTE_ADDR="", HTTP_X_REAL_IP=address)


def guess(address: str, times: int = 1, username: str = "owner") -> list[int]:
    return [sign_in(Client(), f"guess {each}", address, username).status_code for each in range(times)]


def test_a_network_that_guesses_is_refused_whatever_it_tries_next(monkeypatch: pytest.MonkeyPatch) -> None:
    assert guess("192.0.2.1", 9) == [200] * 3 + [429] * 6
    assert sign_in(Client(), PASSWORD, "192.0.2.2").status_code == 302  # one network exhausts no account
    monkeypatch.setattr("django.contrib.auth.forms.authenticate", lambda *_, **__: pytest.fail("costs a hash"))
    refused = sign_in(Client(), PASSWORD)
    assert (refused.status_code, refused["Retry-After"]) == (429, str(LEFT))
    assert (refused["Cache-Control"], refused["Content-Type"]) == ("no-store", "text/plain; charset=utf-8")
    assert b"in 9 minutes" in refused.content
    assert guess("192.0.2.1", username="another") == [429]


def test_many_networks_guess_at_one_account_no_more_often_than_it_bears() -> None:
    assert [guess(f"192.0.2.{each}")[0] for each in range(7)] == [200] * 5 + [429] * 2
    assert guess("192.0.2.1", username="another") == [200]


def test_a_browser_that_has_signed_in_before_is_kept_out_by_no_stranger() -> None:
    owner = Client()
    assert sign_in(owner, PASSWORD).status_code == 302
    owner.cookies.pop("sessionid")
    for each in range(9):
        guess(f"192.0.2.{each}", 4)
    assert sign_in(Client(), PASSWORD, "192.0.2.77").status_code == 429
    assert sign_in(owner, PASSWORD).status_code == 302


def test_a_known_browser_guesses_no_more_than_others_and_at_no_other_account() -> None:
    User.objects.create_superuser("second", password=PASSWORD)
    known = Client()
    sign_in(known, PASSWORD, "192.0.2.9")
    assert [sign_in(known, f"guess {each}").status_code for each in range(5)] == [200, 200, 200, 429, 429]
    assert [sign_in(known, "a guess", username="second").status_code for _ in range(4)] == [200, 200, 200, 429]


def test_a_forged_mark_of_a_known_browser_is_none() -> None:
    stranger = Client()
    stranger.cookies["known_browser"] = "eyJhY2NvdW50Ijoib3duZXIifQ:1abc:forged"
    assert [sign_in(stranger, "a guess").status_code for _ in range(4)] == [200, 200, 200, 429]
    mark = sign_in(Client(), PASSWORD, "192.0.2.2").cookies["known_browser"]
    assert (mark["path"], mark["httponly"], mark["samesite"]) == ("/admin/login/", True, "Strict")
    assert PASSWORD not in mark.value


def test_the_next_ten_minutes_begin_anew_and_the_right_password_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    guess("192.0.2.1", 4)
    monkeypatch.setattr("project.login.time.time", lambda: MOMENT + LEFT)
    assert [sign_in(Client(), PASSWORD).status_code for _ in range(8)] == [302] * 8


def test_counts_are_kept_for_a_while_only_and_have_no_names(redis_servers: RedisServers) -> None:
    guess("192.0.2.1")
    keys = list(redis_servers.state.client.scan_iter("admin:*"))
    assert sorted(key.rpartition(b":")[0] for key in keys) == [b"admin:account", b"admin:network"]
    assert all(b"owner" not in member for key in keys for member in redis_servers.state.client.hkeys(key))
    assert all(0 < redis_servers.state.client.ttl(key) <= login.GUESS_WINDOW_SECONDS for key in keys)


def test_strangers_without_number_share_one_count_and_lock_out_no_known_browser(
    redis_servers: RedisServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = Client()
    assert sign_in(known, PASSWORD, "192.0.2.77").status_code == 302
    monkeypatch.setattr(stores, "WINDOW_MEMBERS", StateShare(1, record_bytes=1024**3 // 5))
    flood = [guess(f"198.51.100.{each}", username=f"name {each}")[0] for each in range(20)]
    assert (
        flood == [200] * 7 + [429] * 13
    )  # four of them have a count of their own, beside the known one; three share one
    members = [redis_servers.state.client.hlen(key) for key in redis_servers.state.client.keys("admin:*")]
    assert max(members) <= 6
    assert sign_in(known, PASSWORD, "192.0.2.77").status_code == 302


def test_a_cache_that_strangers_fill_forgets_no_attempt(redis_servers: RedisServers) -> None:
    for status in (200, 200, 200, 429):
        assert guess("192.0.2.1") == [status]
        redis_servers.cache.client.flushall()


@pytest.mark.parametrize("outage", ["away", "full"])
def test_attempts_are_counted_while_state_takes_none(
    request: pytest.FixtureRequest, redis_servers: RedisServers, outage: str
) -> None:
    redis_servers.state.stop() if outage == "away" else request.getfixturevalue("full_state")
    assert guess("192.0.2.1", 5) == [200, 200, 200, 429, 429]
    assert sign_in(Client(), PASSWORD, "192.0.2.2").status_code == 302


def test_a_user_with_the_password_gets_in_while_attempts_cannot_be_counted(full_state: RedisServers) -> None:
    full_state.cache.stop()
    assert sign_in(Client(), PASSWORD).status_code == 302


def test_counting_can_be_switched_off(settings: Settings, redis_servers: RedisServers) -> None:
    settings.ADMIN_SIGN_INS = settings.ADMIN_SIGN_INS_PER_ACCOUNT = 0
    assert guess("192.0.2.1", 9) == [200] * 9
    assert redis_servers.state.client.keys("admin:*") == []


def test_the_log_names_neither_account_nor_password(caplog: pytest.LogCaptureFixture) -> None:
    guess("192.0.2.1", 4, username="a password in the wrong field")
    assert "too many attempts" in caplog.text
    assert "wrong field" not in caplog.text
    assert "guess" not in caplog.text


@pytest.mark.parametrize(
    ("sent", "network"),
    [
        ({"REMOTE_ADDR": "", "HTTP_X_REAL_IP": "192.0.2.7"}, "192.0.2.7"),
        ({"REMOTE_ADDR": "", "HTTP_X_REAL_IP": "2001:db8:1:2:3:4:5:6"}, "2001:db8:1::/56"),
        ({"REMOTE_ADDR": "10.0.0.1", "HTTP_X_REAL_IP": "192.0.2.7"}, "192.0.2.7"),
        ({"REMOTE_ADDR": "192.0.2.1", "HTTP_X_REAL_IP": "192.0.2.7"}, "192.0.2.1"),
        ({"REMOTE_ADDR": "192.0.2.1", "HTTP_X_FORWARDED_FOR": "192.0.2.7"}, "192.0.2.1"),
        ({"REMOTE_ADDR": "", "HTTP_X_REAL_IP": "unix:"}, "unix:"),
        ({"REMOTE_ADDR": ""}, "unix:"),
    ],
)
def test_a_network_is_told_by_whom_the_site_believes(rf: Any, sent: dict[str, str], network: str) -> None:
    assert middleware.request_network(rf.get("/", **sent)) == network


def test_an_odd_name_is_counted_as_any_other() -> None:
    for name in ("", "\ud800", "x" * 10_000, "\0"):
        assert login.seconds_to_wait(SignInAttempt("192.0.2.1", name), MOMENT) >= 0
