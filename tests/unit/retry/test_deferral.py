"""Main's table: for every state, the answer and its side effects; and the delivery by preference and proxies."""

import json
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from unittest.mock import Mock
from urllib.parse import parse_qs, urlsplit

import pytest
from django.http import HttpResponse
from django.test import RequestFactory
from pytest_django import Settings

from retry import claim_state, claims, contents, headers, stores
from retry.contents import Prepared
from retry.deferral import serve_or_defer
from retry.errors import QueueUnavailable
from retry.scripts import ScriptCall
from retry.tickets import MAX_REDIRECT_CHARACTERS, Ticket, read_ticket
from retry.work import Work
from tests.conftest import RedisServers
from tests.support.claim_calls import begun, fail, finish, look

pytestmark = pytest.mark.usefixtures("servers")
KEY = "tile:a:1"


def ask(
    work: Work, path: str = "/tiles/a.png", *, version: int = 0, html: bool = False, **headers: str
) -> HttpResponse:
    return serve_or_defer(RequestFactory(headers=headers).get(path), KEY, work, version=version, html=html)


def store(*, body: bytes = b"tile", fresh: float = 60, stale: float = 600, client: float | None = None) -> None:
    content = Prepared(body, "image/png", fresh, stale, client)
    moment = datetime.now(UTC) - timedelta(seconds=5)
    stores.execute_call(contents.store_call(KEY, content, 1, moment, 0.002))


def queued(servers: RedisServers, lane: str = "paint.now") -> int:
    return servers.state.client.llen(lane)


def test_fresh_content_is_served_with_all_its_fields(work: Work) -> None:
    store(client=30)
    response = ask(work)
    assert (response.status_code, response.content) == (200, b"tile")
    assert (
        dict(response.headers).items()
        >= {
            **{"Content-Type": "image/png", "Content-Length": "4", "Content-Location": "/tiles/a.png"},
            "Cache-Control": "public, max-age=30, s-maxage=2, stale-while-revalidate=1, stale-if-error=60",
            **{"Access-Control-Allow-Origin": "*", "Accept-Ranges": "bytes"},
        }.items()
    )
    assert response["Cache-Status"].startswith("Tarry; hit; ttl=")
    for name in ("ETag", "Last-Modified", "Expires", "Server-Timing"):
        assert response[name]


def test_shared_caches_never_keep_content_longer_than_it_is_fresh(work: Work) -> None:
    store(fresh=1.5)
    assert "s-maxage=1," in ask(work)["Cache-Control"]


def test_a_matching_validator_gets_304(work: Work) -> None:
    store()
    first = ask(work)
    again = ask(work, if_none_match=first["ETag"])
    assert (again.status_code, again.content, again["ETag"]) == (304, b"", first["ETag"])
    assert again["Cache-Status"].startswith("Tarry; hit")
    assert ask(work, if_modified_since=first["Last-Modified"]).status_code == 304
    assert ask(work, if_none_match='"other"').status_code == 200


def test_pages_elsewhere_may_read_answers_to_validators(work: Work) -> None:
    store()
    unchanged, refused = ask(work, if_none_match=ask(work)["ETag"]), ask(work, if_match='"other"')
    assert (unchanged.status_code, refused.status_code) == (304, 412)
    for name, value in headers.CORS_HEADERS.items():
        assert unchanged[name] == refused[name] == value
    assert (refused["Content-Type"], refused["Cache-Control"]) == ("application/problem+json", "no-store")


def test_missing_content_is_claimed_queued_and_redirected(work: Work, servers: RedisServers) -> None:
    response = ask(work, "/tiles/a.png?x=%C3%A9")
    target = urlsplit(response["Location"])
    assert (response.status_code, target.path) == (302, "/retry_after")
    query = {name: values[0] for name, values in parse_qs(target.query).items()}
    assert set(query) == {"redirect", "retry_after", "key", "work", "hop", "sig"}
    assert query["redirect"] == "/tiles/a.png?x=%C3%A9"
    assert (query["key"], query["work"], query["hop"]) == (KEY, work.key, "1")
    assert response["Cache-Control"] == "no-store"
    assert int(response["Retry-After"]) >= 1
    assert queued(servers) == 1


def test_the_message_is_the_call_of_the_task(work: Work, servers: RedisServers) -> None:
    ask(work)
    [message] = servers.state.client.lrange("paint.now", 0, -1)
    token = servers.state.client.hget(f"retry:claim:{work.key}", "token")
    assert token is not None
    sent = json.loads(message)["headers"]
    assert (sent["task"], sent["argsrepr"]) == ("tests.paint", repr([work.key, int(token), "a", 1]))


def test_the_second_request_joins_without_queueing(work: Work, servers: RedisServers) -> None:
    assert [ask(work).status_code for _ in range(3)] == [302, 302, 302]
    assert queued(servers) == 1


def test_stale_content_is_served_at_once_and_refreshed_once(work: Work, servers: RedisServers) -> None:
    store(fresh=0)
    for _ in range(3):
        response = ask(work)
        assert response.status_code == 200
        assert response["Cache-Control"] == "public, max-age=1, s-maxage=1, stale-if-error=60"
    assert queued(servers, "paint.refresh") == 1
    assert queued(servers, "paint.now") == 0


def test_content_of_an_older_version_is_served_stale(work: Work, servers: RedisServers) -> None:
    store()
    response = ask(work, version=1)
    assert response.status_code == 200
    assert "; ttl=0;" in response["Cache-Status"]  # nothing of its time is left, for any time it was stored with
    assert queued(servers, "paint.refresh") == 1


def test_content_about_to_expire_is_refreshed_early(work: Work, servers: RedisServers) -> None:
    content = Prepared(b"tile", "image/png", 60, 600)
    stores.execute_call(contents.store_call(KEY, content, 1, datetime.now(UTC), cost_seconds=1e9))
    response = ask(work)
    assert response.status_code == 200
    assert "stale" not in response["Server-Timing"]
    assert queued(servers, "paint.refresh") == 1


def test_stale_content_is_not_refreshed_into_a_full_backlog(
    work: Work, servers: RedisServers, settings: Settings
) -> None:
    settings.RETRY_LANES = {lane: {"limit": 1, "workers": 1} for lane in ("paint.now", "paint.refresh")}
    stores.execute_call(claims.begin_call(replace(work, key="paint:other"), refresh=True))
    store(fresh=0)
    assert ask(work).status_code == 200
    assert queued(servers, "paint.refresh") == 0


def test_a_failure_in_force_is_answered_at_once(work: Work, servers: RedisServers) -> None:
    fail(work, begun(work).token, status=504)
    response = ask(work)
    assert (response.status_code, json.loads(response.content)["detail"]) == (504, "No.")
    assert int(response["Retry-After"]) >= 1
    assert (response["Content-Type"], response["Cache-Control"]) == ("application/problem+json", "no-store")
    assert queued(servers) == 0


def test_stale_content_bridges_a_failure(work: Work) -> None:
    store(fresh=0)
    fail(work, begun(work).token, status=504)
    assert ask(work).status_code == 200


def test_content_that_was_stored_and_is_gone_again_ends_in_503(work: Work, servers: RedisServers) -> None:
    finish(work, begun(work).token)
    response = ask(work)
    assert response.status_code == 503
    assert int(response["Retry-After"]) >= 1
    assert queued(servers) == 0


def test_a_full_backlog_is_503_with_an_honest_wait(work: Work, servers: RedisServers, settings: Settings) -> None:
    settings.RETRY_LANES = {"paint.now": {"limit": 6, "workers": 2}}
    for number in range(6):
        stores.execute_call(claims.begin_call(replace(work, key=f"paint:{number}"), refresh=False))
    response = ask(work)
    assert (response.status_code, response["Retry-After"]) == (503, "4")  # 6 × 1 s ÷ 2 workers, and its own second
    assert not servers.state.client.exists(f"retry:claim:{work.key}")


def test_content_that_came_in_between_is_served_and_the_claim_taken_back(
    work: Work, servers: RedisServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    beginning = claims.begin_call

    def begin_late(work: Work, *, refresh: bool) -> ScriptCall:
        store()
        return beginning(work, refresh=refresh)

    monkeypatch.setattr(claims, "begin_call", begin_late)
    assert ask(work).status_code == 200
    assert queued(servers) == 0
    assert not servers.state.client.exists(f"retry:claim:{work.key}")


def test_a_head_request_is_answered_as_get(work: Work) -> None:
    assert serve_or_defer(RequestFactory().head("/a"), KEY, work).status_code == 302


def test_other_methods_are_refused(work: Work, servers: RedisServers) -> None:
    assert serve_or_defer(RequestFactory().post("/a"), KEY, work).status_code == 405
    assert queued(servers) == 0


def test_a_preflight_is_answered(work: Work) -> None:
    response = serve_or_defer(RequestFactory().options("/a"), KEY, work)
    assert response.status_code == 204
    assert response["Access-Control-Allow-Headers"]


def test_an_absurdly_long_address_is_refused(work: Work) -> None:
    assert ask(work, "/" + "x" * MAX_REDIRECT_CHARACTERS).status_code == 414


def test_a_navigation_for_html_gets_the_waiting_page(work: Work, servers: RedisServers) -> None:
    response = ask(work, "/feeds/<b>", html=True, sec_fetch_mode="navigate")
    assert response.status_code == 503
    assert int(response["Retry-After"]) >= 1
    assert response["Cache-Control"] == "no-store"
    assert b'http-equiv="refresh"' in response.content
    assert b"<b>" not in response.content
    assert queued(servers) == 1
    assert ask(work, html=True, sec_fetch_mode="cors").status_code == 302


def test_another_host_for_waiting_gets_an_absolute_way_back(work: Work, settings: Settings) -> None:
    settings.RETRY_AFTER_SERVER = "https://wait.example/retry_after"
    settings.PUBLIC_URL = "https://tiles.example"
    target = urlsplit(ask(work)["Location"])
    assert target.netloc == "wait.example"
    assert parse_qs(target.query)["redirect"] == ["https://tiles.example/tiles/a.png"]


def test_without_the_state_fresh_and_stale_content_is_served(work: Work, settings: Settings) -> None:
    settings.REDIS_URL = "unix:///nowhere/state.sock"
    store()
    assert ask(work).status_code == 200
    store(fresh=0)
    assert ask(work).status_code == 200


def test_without_the_state_missing_content_is_503(work: Work, settings: Settings) -> None:
    settings.REDIS_URL = "unix:///nowhere/state.sock"
    response = ask(work)
    assert (response.status_code, response["Retry-After"]) == (503, "1")


def test_without_the_cache_the_answer_is_503(work: Work, servers: RedisServers, settings: Settings) -> None:
    settings.CACHE_URL = "unix:///nowhere/cache.sock"
    assert ask(work).status_code == 503
    assert queued(servers) == 0


def test_without_the_broker_no_claim_is_left_and_the_log_says_why(
    work: Work, servers: RedisServers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("celery.current_app.send_task", Mock(side_effect=OSError("refused")))
    assert ask(work).status_code == 503
    assert not servers.state.client.exists(f"retry:claim:{work.key}")
    (record,) = [record for record in caplog.records if record.name == "tarry.serving"]
    assert (record.message, record.work) == ("not handed over", work.key)  # type: ignore[attr-defined]


def test_a_lane_that_is_closed_for_so_long_is_told_of(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = QueueUnavailable("Left alone.", retry_seconds=90)
    monkeypatch.setattr("retry.lanes.publish_work", Mock(side_effect=closed))
    response = ask(work)
    assert (response.status_code, response["Retry-After"]) == (503, "90")
    assert 'detail="Left alone"' in response["Cache-Status"]
    assert look(work) == claim_state.WorkUnknown()
    store(fresh=0)
    assert ask(work).status_code == 200


def ticket_of(query: str) -> Ticket:
    return read_ticket(query, now=time.time(), max_age_seconds=600, hosts=frozenset())


def test_who_prefers_so_is_answered_202_at_once(work: Work, servers: RedisServers) -> None:
    response = ask(work, prefer="respond-async")
    status = urlsplit(response["Location"])
    assert (response.status_code, status.path) == (202, "/retry_after/status")
    assert ticket_of(status.query).redirect == "/tiles/a.png"
    assert int(response["Retry-After"]) >= 1
    assert (response["Preference-Applied"], response["Vary"]) == ("respond-async", "Prefer")
    assert response["Cache-Control"] == "no-store"
    body = json.loads(response.content)
    assert (body["state"], body["content"], body["status"]) == ("preparing", "/tiles/a.png", response["Location"])
    assert 0 <= datetime.fromisoformat(body["expected"]).timestamp() - time.time() + 1 < 10
    assert servers.state.client.llen("paint.now") == 1


def test_who_does_not_wait_is_told_when_to_come_again(work: Work, servers: RedisServers) -> None:
    response = ask(work, prefer="wait=0")
    assert response.status_code == 503
    assert int(response["Retry-After"]) >= 1
    assert response["Content-Type"] == "application/problem+json"
    assert response["Preference-Applied"] == "wait=0"
    assert servers.state.client.llen("paint.now") == 1  # it is prepared all the same


def test_no_wait_and_a_status_address_go_together(work: Work) -> None:
    response = ask(work, prefer="respond-async, wait=0")
    assert (response.status_code, response["Preference-Applied"]) == (202, "respond-async, wait=0")


def test_the_ticket_carries_how_long_the_client_waits(work: Work) -> None:
    began = time.time()
    response = ask(work, prefer="respond-async, wait=7")
    ticket = ticket_of(urlsplit(response["Location"]).query)
    assert (response.status_code, response["Preference-Applied"]) == (302, "wait=7")
    assert ticket.deadline == pytest.approx(began + 7, abs=0.5)
    assert (ticket.wait_seconds, ticket.respond_async) == (7, True)


def test_preferences_change_nothing_about_a_page_for_people(work: Work) -> None:
    response = ask(work, html=True, prefer="wait=7", sec_fetch_mode="navigate")
    assert (response.status_code, response["Content-Type"]) == (503, "text/html; charset=utf-8")


def test_nginx_is_handed_the_request_when_it_can_take_it(work: Work, settings: Settings) -> None:
    settings.RETRY_DELIVERY = "internal"
    response = ask(work, "/tiles/ä.png?x=%3F", x_front="asked")
    assert response["X-Accel-Redirect"] == "@wait"
    assert ticket_of(response["X-Ticket"]).redirect == "/tiles/%C3%A4.png?x=%3F"
    for name in ("Cache-Control", "Content-Type", "Expires", "Accept-Ranges", "Set-Cookie"):
        assert name not in response.headers  # nginx would add it to the content's own


@pytest.mark.parametrize("mark", ["returned", "refresh", "handed", "Asked", ""])
def test_nothing_else_is_handed_over(work: Work, settings: Settings, mark: str) -> None:
    settings.RETRY_DELIVERY = "internal"
    assert ask(work, x_front=mark).status_code == 302
    assert ask(work).status_code == 302


@pytest.mark.parametrize("delivery", ["redirect", "inline"])
def test_other_deliveries_begin_with_a_redirect(work: Work, settings: Settings, delivery: str) -> None:
    settings.RETRY_DELIVERY = delivery
    assert ask(work, x_front="asked").status_code == 302
