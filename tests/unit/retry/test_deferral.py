"""Main's table: for every state, the answer and its side effects; and the delivery by preference and proxies."""

import json
import random
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import ANY, Mock
from urllib.parse import parse_qs, urlsplit

import pytest
from django.http import HttpResponse
from django.test import RequestFactory
from pytest_django import Settings

from retry import claim_state, claims, contents, headers, popularity, stores
from retry.conf import conf
from retry.contents import Prepared
from retry.decision import Refuse
from retry.deferral import find_answer, serve_or_defer
from retry.errors import QueueUnavailable, StoreUnavailable
from retry.lanes import UNKNOWN_TOKEN, write_claim_message
from retry.messages import read_message
from retry.scripts import Reply, ScriptCall
from retry.tickets import MAX_REDIRECT_CHARACTERS, Ticket, read_ticket
from retry.work import Work
from tests.conftest import RedisServers
from tests.support.claim_calls import begun, fail, finish, look, start
from tests.unit.conftest import close_breakers

pytestmark = pytest.mark.usefixtures("servers")
KEY = "tile:a:1"
LONG_PATH = "/" + "x" * MAX_REDIRECT_CHARACTERS


@pytest.fixture(autouse=True)
def _no_luck(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is refreshed early by chance."""
    monkeypatch.setattr(random, "random", lambda: 0.0)


def ask(
    work: Work, path: str = "/tiles/a.png", *, version: int = 0, html: bool = False, **headers: str
) -> HttpResponse:
    return serve_or_defer(RequestFactory(headers=headers).get(path), KEY, work, version=version, html=html)


def store(*, fresh: float = 60, stale: float = 600, client: float | None = None, cost: float = 0.002) -> None:
    content = Prepared(b"tile", "image/png", fresh, stale, client)
    moment = datetime.now(UTC) - timedelta(seconds=5)
    stores.execute_call(contents.store_call(KEY, content, 1, moment, cost))


def store_until(seconds_left: float) -> None:
    store(stale=0)
    stores.fast_client("cache").pexpire(contents.content_name(KEY), int(seconds_left * 1000))


def count_requests(number: float) -> None:
    stores.execute_call(popularity.count_call("here", b"", b"", [], {KEY: number}))


def token_of(work: Work, servers: RedisServers) -> int:
    return int(servers.state.client.hget(f"retry:{{0}}:claim:{work.key}", "token") or 0)


def queued(servers: RedisServers, lane: str = "paint.now") -> int:
    return servers.state.client.llen(lane)


@pytest.fixture
def _sent_by_the_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retry.lanes.write_claim_message", write_claim_message)
    monkeypatch.setattr("retry.lanes.publish_work", Mock(side_effect=AssertionError("a second step")))


@pytest.fixture(params=["by the claim", "after the claim"])
def is_sent_by_claim(request: pytest.FixtureRequest) -> bool:
    """Work is handed over in the step of its claim, or by publish_work() after it."""
    is_one_step: bool = request.param == "by the claim"
    if is_one_step:
        request.getfixturevalue("_sent_by_the_claim")
    return is_one_step


def messages(servers: RedisServers, lane: str = "paint.now") -> list[str]:
    return [read_message(text).arguments[0] for text in servers.state.client.lrange(lane, 0, -1)]


def test_fresh_content_is_served_with_all_its_fields(work: Work) -> None:
    store(client=30)
    response = ask(work)
    assert (response.status_code, response.content) == (200, b"tile")
    fields = {
        **{"Content-Type": "image/png", "Content-Length": "4", "Content-Location": "/tiles/a.png"},
        "Cache-Control": "public, max-age=30, s-maxage=2, stale-while-revalidate=1, stale-if-error=60",
        **{"Access-Control-Allow-Origin": "*", "Accept-Ranges": "bytes"},
    }
    assert dict(response.headers).items() >= fields.items()
    assert response["Cache-Status"].startswith("Tarry; hit; ttl=")
    assert all(response[name] for name in ("ETag", "Last-Modified", "Expires", "Server-Timing"))


def test_shared_caches_never_keep_content_longer_than_it_is_fresh(work: Work) -> None:
    store(fresh=1.5)
    assert "s-maxage=1," in ask(work)["Cache-Control"]


def test_a_matching_validator_gets_304_and_another_one_412_which_pages_elsewhere_may_read(work: Work) -> None:
    store()
    first = ask(work)
    again, refused = ask(work, if_none_match=first["ETag"]), ask(work, if_match='"other"')
    assert (again.status_code, again.content, again["ETag"]) == (304, b"", first["ETag"])
    assert again["Cache-Status"].startswith("Tarry; hit")
    assert ask(work, if_modified_since=first["Last-Modified"]).status_code == 304
    assert ask(work, if_none_match='"other"').status_code == 200
    assert refused.status_code == 412
    for name, value in headers.open_headers("image/png").items():
        assert again[name] == refused[name] == value
    assert (refused["Content-Type"], refused["Cache-Control"]) == ("application/problem+json", "no-store")


def test_missing_content_is_claimed_queued_once_and_redirected(
    work: Work, servers: RedisServers, is_sent_by_claim: bool
) -> None:
    response = ask(work, "/tiles/a.png?x=%C3%A9")
    target = urlsplit(response["Location"])
    assert (response.status_code, target.path) == (302, "/retry_after")
    query = {name: values[0] for name, values in parse_qs(target.query).items()}
    assert set(query) == {"redirect", "retry_after", "key", "work", "hop", "sig"}
    assert query["redirect"] == "/tiles/a.png?x=%C3%A9"
    assert (query["key"], query["work"], query["hop"]) == (KEY, work.key, "1")
    assert response["Cache-Control"] == "no-store"
    assert int(response["Retry-After"]) >= 1
    assert [ask(work).status_code for _ in range(2)] == [302, 302]
    [message] = servers.state.client.lrange("paint.now", 0, -1)
    token = UNKNOWN_TOKEN if is_sent_by_claim else token_of(work, servers)
    sent = json.loads(message)["headers"]
    assert (sent["task"], sent["argsrepr"]) == ("tests.paint", repr([work.key, token, "a", 1]))


@pytest.mark.parametrize(("fresh", "version"), [(0, 0), (60, 1)], ids=["past its time", "of an older version"])
def test_stale_content_is_served_at_once_and_refreshed_once(
    work: Work, servers: RedisServers, fresh: float, version: int
) -> None:
    store(fresh=fresh)
    for _ in range(3):
        response = ask(work, version=version)
        assert response.status_code == 200
        assert response["Cache-Control"] == "public, max-age=1, s-maxage=1, stale-if-error=60"
        assert "; ttl=0;" in response["Cache-Status"] or not fresh  # nothing is left of any time it was stored with
    assert queued(servers, "paint.refresh") == 1
    assert queued(servers, "paint.now") == 0


def test_content_about_to_expire_is_refreshed_early_by_luck(
    work: Work, servers: RedisServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(random, "random", lambda: 0.5)
    store(cost=1e9)
    response = ask(work)
    assert response.status_code == 200
    assert "stale" not in response["Server-Timing"]
    assert queued(servers, "paint.refresh") == 1


@pytest.mark.parametrize(("requests", "refreshed"), [(20, 1), (5, 0)], ids=["popular", "not popular"])
def test_content_about_to_expire_is_served_and_refreshed_once_if_it_is_popular(
    work: Work, servers: RedisServers, settings: Settings, requests: float, refreshed: int
) -> None:
    settings.POPULAR_REQUESTS = 10
    store_until(8)
    count_requests(requests)
    for _ in range(3):
        response = ask(work)
        assert response.status_code == 200
        assert "stale" not in response["Server-Timing"]
    assert queued(servers, "paint.refresh") == servers.state.client.exists(f"retry:{{0}}:claim:{work.key}") == refreshed


def test_popular_content_that_lasts_is_not_asked_about(
    work: Work, servers: RedisServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_until(30)
    count_requests(20)
    noted = Mock(side_effect=stores.execute_call)
    monkeypatch.setattr(stores, "execute_call", noted)
    assert ask(work).status_code == 200
    assert "state" not in [call.args[0].server for call in noted.mock_calls]
    assert queued(servers, "paint.refresh") == 0


def test_a_refresh_that_failed_is_not_tried_again_during_its_pause(
    work: Work, servers: RedisServers, settings: Settings
) -> None:
    settings.POPULAR_REQUESTS = 10
    store_until(8)
    count_requests(20)
    ask(work)
    servers.state.client.delete("paint.refresh")
    fail(work, token_of(work, servers))
    assert ask(work).status_code == 200
    assert queued(servers, "paint.refresh") == 0


def test_stale_content_is_not_refreshed_into_a_full_backlog(
    work: Work, servers: RedisServers, settings: Settings
) -> None:
    settings.RETRY_LANES = {lane: {"limit": 1, "workers": 1} for lane in ("paint.now", "paint.refresh")}
    stores.execute_call(claims.begin_call(replace(work, key="paint:other"), refresh=True))
    store(fresh=0)
    assert ask(work).status_code == 200
    assert queued(servers, "paint.refresh") == 0


def test_a_failure_in_force_is_answered_at_once_unless_stale_content_bridges_it(
    work: Work, servers: RedisServers
) -> None:
    fail(work, begun(work).token, status=504)
    response = ask(work)
    assert (response.status_code, json.loads(response.content)["detail"]) == (504, "No.")
    assert int(response["Retry-After"]) >= 1
    assert (response["Content-Type"], response["Cache-Control"]) == ("application/problem+json", "no-store")
    assert queued(servers) == 0
    store(fresh=0)
    assert ask(work).status_code == 200


@pytest.mark.usefixtures("is_sent_by_claim")
def test_a_full_backlog_is_503_with_an_honest_wait(work: Work, servers: RedisServers, settings: Settings) -> None:
    settings.RETRY_LANES = {"paint.now": {"limit": 6, "workers": 2}}
    for number in range(6):
        stores.execute_call(claims.begin_call(replace(work, key=f"paint:{number}"), refresh=False))
    response = ask(work)
    assert (response.status_code, response["Retry-After"]) == (503, "4")  # 6 × 1 s ÷ 2 workers, and its own second
    assert queued(servers) == 0
    assert not servers.state.client.exists(f"retry:{{0}}:claim:{work.key}")


@pytest.mark.usefixtures("is_sent_by_claim")
def test_content_that_came_in_between_is_served_and_nothing_is_claimed(
    work: Work, servers: RedisServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    beginning = claims.begin_call

    def begin_late(work: Work, **given: Any) -> ScriptCall:
        monkeypatch.undo()
        token = start(work, begun(work).token)
        store()
        finish(work, token)
        return beginning(work, **given)

    monkeypatch.setattr(claims, "begin_call", begin_late)
    assert ask(work).status_code == 200
    assert queued(servers) == 0
    assert not servers.state.client.exists(f"retry:{{0}}:claim:{work.key}")


@pytest.mark.usefixtures("is_sent_by_claim")
@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("HEAD", "/a", 302), ("POST", "/a", 405), ("OPTIONS", "/a", 204), ("GET", LONG_PATH, 414)],
    ids=["HEAD is answered as GET", "other methods are refused", "preflight", "absurdly long address"],
)
def test_a_request_that_needs_no_content_is_answered_by_its_method_and_address(
    work: Work, servers: RedisServers, method: str, path: str, status: int
) -> None:
    response = serve_or_defer(RequestFactory().generic(method, path), KEY, work)
    assert response.status_code == status
    assert ("Access-Control-Allow-Headers" in response) == (method == "OPTIONS")
    assert queued(servers) == (method == "HEAD")


@pytest.mark.parametrize(
    ("given", "page"),
    [
        ({"html": True, "host": "example.org"}, "example.org"),
        ({"html": True}, ""),
        ({"html": True, "host": "caf\u00e9.example"}, ""),
        ({"html": False, "host": "example.org"}, None),
    ],
)
def test_a_person_goes_to_wait_like_everybody_with_a_ticket_that_names_the_host_of_a_page(
    work: Work, servers: RedisServers, given: dict[str, Any], page: str | None
) -> None:
    request = RequestFactory(headers={"Sec-Fetch-Mode": "navigate"}).get("/feeds/a/")
    response = serve_or_defer(request, KEY, work, **given)
    assert (response.status_code, response["Cache-Control"]) == (302, "no-store")
    assert ticket_of(urlsplit(response["Location"]).query).page == page
    assert queued(servers) == 1


@pytest.mark.parametrize(
    "fields", [{}, {"Sec-Fetch-Mode": "cors"}, {"Sec-Fetch-Mode": "navigate", "Prefer": "respond-async, wait=7"}]
)
def test_no_other_client_is_taken_for_a_person(work: Work, fields: dict[str, str]) -> None:
    request = RequestFactory(headers={"Accept": "*/*", **fields}).get("/feeds/a/")
    response = serve_or_defer(request, KEY, work, html=True)
    assert ticket_of(urlsplit(response["Location"]).query).page is None


def test_another_host_for_waiting_gets_an_absolute_way_back(work: Work, settings: Settings) -> None:
    settings.RETRY_AFTER_SERVER = "https://wait.example/retry_after"
    settings.PUBLIC_URL = "https://tiles.example"
    target = urlsplit(ask(work)["Location"])
    assert target.netloc == "wait.example"
    assert parse_qs(target.query)["redirect"] == ["https://tiles.example/tiles/a.png"]


def test_without_the_state_content_is_served_and_missing_content_is_503(work: Work, settings: Settings) -> None:
    settings.REDIS_URL = "unix:///nowhere/state.sock"
    missing = ask(work)
    assert (missing.status_code, missing["Retry-After"]) == (503, "1")
    for fresh in (60, 0):
        store(fresh=fresh)
        assert ask(work).status_code == 200
    store_until(8)
    about_to_expire = ask(work)
    assert about_to_expire.status_code == 200
    assert "stale" not in about_to_expire["Server-Timing"]


def test_without_the_cache_the_answer_is_503(work: Work, servers: RedisServers, settings: Settings) -> None:
    settings.CACHE_URL = "unix:///nowhere/cache.sock"
    assert ask(work).status_code == 503
    assert queued(servers) == 0


def test_without_the_cache_what_is_being_prepared_is_waited_for_a_second_at_the_least(
    work: Work, servers: RedisServers, settings: Settings
) -> None:
    token = begun(work).token
    settings.CACHE_URL = "unix:///nowhere/cache.sock"
    for has_ended in (False, True):
        if has_ended:
            assert finish(work, start(work, token))
        response = ask(work)
        assert (response.status_code, queued(servers)) == (302, 0)
        earliest = ticket_of(urlsplit(response["Location"]).query).earliest
        assert earliest == pytest.approx(time.time() + 1, abs=0.5)


def test_what_was_lost_with_the_cache_is_waited_for_until_it_may_be_begun_anew(work: Work, settings: Settings) -> None:
    token = begun(work).token
    finish(work, start(work, token))
    assert ask(work).status_code == 503
    stores.execute_call(claims.look_call("paint:other", cache_is_away=True))
    response = ask(work)
    earliest = ticket_of(urlsplit(response["Location"]).query).earliest or 0
    assert (response.status_code, 9 < earliest - time.time() <= settings.RETRY_DONE_SECONDS) == (302, True)


def test_nginx_is_told_what_it_says_of_a_304(work: Work) -> None:
    store()
    plain, fronted = ask(work), ask(work, x_front="asked")
    assert not {headers.MODIFIED_FIELD, headers.VARY_FIELD} & plain.headers.keys()
    assert (fronted["Last-Modified"], fronted[headers.MODIFIED_FIELD]) == (headers.LONG_AGO, plain["Last-Modified"])
    again = ask(work, x_front="asked", if_modified_since=plain["Last-Modified"])
    assert (again.status_code, again[headers.MODIFIED_FIELD]) == (304, plain["Last-Modified"])


@pytest.mark.parametrize(
    ("content_type", "size_bytes", "is_compressed"),
    [
        ("text/html; charset=utf-8", headers.COMPRESSED_MIN_BYTES, True),
        ("text/html; charset=utf-8", headers.COMPRESSED_MIN_BYTES - 1, False),
        ("image/png", 1_000_000, False),
    ],
)
def test_nginx_is_told_that_it_compresses_an_answer(
    work: Work, content_type: str, size_bytes: int, is_compressed: bool
) -> None:
    content = Prepared(b"x" * size_bytes, content_type, 60, 60)
    stores.execute_call(contents.store_call(KEY, content, 1, datetime.now(UTC), 0.1))
    etag = ask(work)["ETag"]
    for response in (ask(work, x_front="asked"), ask(work, x_front="asked", if_none_match=etag)):
        assert response.get(headers.VARY_FIELD) == ("Accept-Encoding" if is_compressed else None)


def test_a_tag_alone_decides_whatever_the_date_is(work: Work) -> None:
    store()
    etag, moment = ask(work)["ETag"], "Fri, 21 Nov 2025 22:30:00 GMT"
    assert ask(work, if_none_match=etag, if_modified_since=moment).status_code == 304
    store()  # the same bytes once more
    assert ask(work, if_none_match='"other"', if_modified_since=ask(work)["Last-Modified"]).status_code == 200


def test_without_the_broker_no_claim_is_left_and_the_log_says_why(
    work: Work, servers: RedisServers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("retry.stores.push_message", Mock(side_effect=StoreUnavailable("refused")))
    assert ask(work).status_code == 503
    assert not servers.state.client.exists(f"retry:{{0}}:claim:{work.key}")
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


def test_promoted_work_whose_copy_is_not_published_keeps_its_claim(work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    token = begun(work, refresh=True).token
    monkeypatch.setattr("retry.lanes.publish_work", Mock(side_effect=QueueUnavailable("refused")))
    assert find_answer(KEY, work, version=0) == Refuse(1, "state unreachable")
    assert start(work, token)  # by the copy that is in its first lane


def ticket_of(query: str) -> Ticket:
    return read_ticket(query, now=time.time(), max_age_seconds=600, hosts=frozenset())


@pytest.mark.usefixtures("is_sent_by_claim")
def test_a_client_that_prefers_so_is_answered_202_at_once(work: Work, servers: RedisServers) -> None:
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
    assert queued(servers) == 1


@pytest.mark.usefixtures("is_sent_by_claim")
def test_a_client_that_does_not_wait_is_told_when_to_come_again(work: Work, servers: RedisServers) -> None:
    response = ask(work, prefer="wait=0")
    assert (response.status_code, response["Content-Type"]) == (503, "application/problem+json")
    assert int(response["Retry-After"]) >= 1
    assert response["Preference-Applied"] == "wait=0"
    assert queued(servers) == 1  # it is prepared all the same
    with_status = ask(work, prefer="respond-async, wait=0")
    assert (with_status.status_code, with_status["Preference-Applied"]) == (202, "respond-async, wait=0")


def test_the_ticket_carries_how_long_the_client_waits(work: Work) -> None:
    began = time.time()
    response = ask(work, prefer="respond-async, wait=7")
    ticket = ticket_of(urlsplit(response["Location"]).query)
    assert (response.status_code, response["Preference-Applied"]) == (302, "wait=7")
    assert ticket.deadline == pytest.approx(began + 7, abs=0.5)
    assert (ticket.wait_seconds, ticket.respond_async) == (7, True)


def test_nginx_is_handed_the_request_when_it_can_take_it(work: Work, settings: Settings) -> None:
    settings.RETRY_DELIVERY = "internal"
    response = ask(work, "/tiles/ä.png?x=%3F", x_front="asked")
    assert response["X-Accel-Redirect"] == "@wait"
    assert ticket_of(response["X-Ticket"]).redirect == "/tiles/%C3%A4.png?x=%3F"
    for name in ("Cache-Control", "Content-Type", "Expires", "Accept-Ranges", "Set-Cookie"):
        assert name not in response.headers  # nginx would add it to the content's own


@pytest.mark.parametrize(
    ("delivery", "mark"),
    [
        *(("internal", mark) for mark in ("returned", "refresh", "handed", "Asked", "")),
        *((delivery, "asked") for delivery in ("redirect", "inline")),
    ],
)
def test_nothing_else_is_handed_over(work: Work, settings: Settings, delivery: str, mark: str) -> None:
    settings.RETRY_DELIVERY = delivery
    assert ask(work, x_front=mark).status_code == 302
    assert ask(work).status_code == 302


@pytest.mark.usefixtures("_sent_by_the_claim")
def test_the_step_that_claims_the_work_puts_its_message_into_the_lane(work: Work, servers: RedisServers) -> None:
    for _ in range(2):
        assert ask(work).status_code == 302
    assert messages(servers) == [work.key]
    assert isinstance(look(work), claim_state.ClaimTaken)


@pytest.mark.usefixtures("is_sent_by_claim")
def test_promoted_work_has_a_message_in_its_faster_lane(work: Work, servers: RedisServers) -> None:
    begun(work, refresh=True)
    assert ask(work).status_code == 302
    assert messages(servers) == [work.key]


@pytest.mark.usefixtures("is_sent_by_claim")
def test_a_full_lane_gets_no_message(work: Work, servers: RedisServers, settings: Settings) -> None:
    settings.RETRY_LANES = {**conf().RETRY_LANES, "paint.now": {"limit": 1, "workers": 1}}
    assert ask(replace(work, key="first")).status_code == 302
    assert ask(work).status_code == 503
    assert messages(servers) == ["first"]


def test_the_refresh_of_content_that_is_there_is_published_after_its_claim(
    work: Work, servers: RedisServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retry.lanes.write_claim_message", write_claim_message)
    store(fresh=0)
    assert ask(work).status_code == 200
    [message] = servers.state.client.lrange("paint.refresh", 0, -1)
    assert token_of(work, servers) != UNKNOWN_TOKEN
    assert read_message(message).arguments[:2] == (work.key, token_of(work, servers))


@pytest.mark.usefixtures("is_sent_by_claim")
def test_work_whose_message_seems_lost_has_another_one_once(work: Work, servers: RedisServers) -> None:
    ask(work)
    servers.state.client.delete("paint.now")
    servers.state.client.hset(f"retry:{{0}}:claim:{work.key}", "expected", 1)
    token = token_of(work, servers)
    for _ in range(2):
        assert ask(work).status_code == 302
    assert (messages(servers), token_of(work, servers)) == ([work.key], token)


@pytest.mark.usefixtures("_sent_by_the_claim")
@pytest.mark.parametrize(("is_repeated", "status"), [(True, 302), (False, 503)], ids=["called again", "given up"])
def test_a_claim_whose_reply_was_lost_has_sent_its_message_once(
    work: Work, servers: RedisServers, monkeypatch: pytest.MonkeyPatch, is_repeated: bool, status: int
) -> None:
    execute = stores.execute_call

    def lose_reply(call: ScriptCall) -> Reply:
        reply = execute(call)
        if call.server != "state":
            return reply
        monkeypatch.setattr(stores, "execute_call", execute)
        assert claim_state.read_claim_state(reply) == claim_state.ClaimBegun(token_of(work, servers), ANY)
        if is_repeated:
            return execute(call)
        raise StoreUnavailable("state: the reply was lost")

    monkeypatch.setattr(stores, "execute_call", lose_reply)
    assert [ask(work).status_code for _ in range(2)] == [status, 302]
    assert messages(servers) == [work.key]
    assert start(work, token_of(work, servers))


@pytest.mark.usefixtures("_sent_by_the_claim")
def test_the_message_of_a_claim_starts_its_work_in_the_partition_of_that(
    work: Work, servers: RedisServers, settings: Settings
) -> None:
    settings.STATE_PARTITIONS = 2
    works = [replace(work, key=f"paint:a:{number}") for number in range(8)]
    assert {claims.partition_of_work(one.key) for one in works} == {0, 1}
    assert [ask(one).status_code for one in works] == [302] * len(works)
    assert sorted(messages(servers)) == [one.key for one in works]
    calls = [claims.start_next_call(work.lane, key, f"n:{key}") for key in messages(servers)]
    found = [claims.read_started(stores.execute_call(call)) for call in calls]
    assert {one.outcome for one in found} == {claims.STARTED}
    assert sorted(one.work_key for one in found) == [one.key for one in works]


@pytest.mark.usefixtures("_sent_by_the_claim")
def test_the_message_of_a_claim_that_was_taken_back_starts_nothing(work: Work, servers: RedisServers) -> None:
    ask(work)
    stores.execute_call(claims.abandon_call(work.key, token_of(work, servers)))
    assert messages(servers) == [work.key]
    found = claims.read_started(stores.execute_call(claims.start_next_call(work.lane, work.key, "n")))
    assert (found.outcome, look(work)) == (0, claim_state.WorkUnknown())


@pytest.mark.usefixtures("_sent_by_the_claim")
def test_a_state_that_is_out_of_memory_refuses_the_claim_with_its_message(work: Work, servers: RedisServers) -> None:
    servers.state.client.config_set("maxmemory", 1)
    try:
        assert ask(work).status_code == 503
    finally:
        servers.state.client.config_set("maxmemory", 0)
    close_breakers()
    assert look(work) == claim_state.WorkUnknown()
    assert messages(servers) == []
