"""The requests that the front passes to the instances, and its answers when they are gone."""

import itertools
import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from statistics import median

import pytest

from .conftest import RunningFront, Start
from .origin import HOT, Answer, Origin


@pytest.mark.parametrize(
    "target", ["/retry_after?key=a", "//retry_after?key=a", "/retry%5Fafter?key=a", "/x/../retry_after?key=a"]
)
def test_the_waiting_instance_gets_its_own_path_and_the_ticket(site: RunningFront, target: str) -> None:
    site.get(target)
    assert [asked.target for asked in site.retry.asked] == ["/retry_after?key=a"]
    assert site.main.asked == []


def test_a_request_that_a_dying_worker_lost_is_tried_again(site: RunningFront) -> None:
    turns = itertools.count()
    site.main.answer = lambda _: Answer(hang_up=next(turns) == 0)
    assert site.get("/tiles/a").status == 200
    assert len(site.main.asked) == 2


@contextmanager
def two_mains(launch: Start) -> Iterator[tuple[RunningFront, Origin]]:
    """A front of main instances at two addresses. The first one is `other`, the second one is away."""
    folder = Path(tempfile.mkdtemp(prefix="tarry-main-", dir="/tmp"))
    other = Origin(folder / "main.sock")
    other.answer = lambda _: Answer(headers={**HOT, "Connection": "close"})  # as it does
    site = launch(main_servers=[f"unix:{folder}/main.sock", f"unix:{folder}/none.sock"])
    try:
        yield site, other
    finally:
        other.close()
        shutil.rmtree(folder)


def test_a_front_goes_on_with_the_other_main_while_one_is_away(launch: Start) -> None:
    with two_mains(launch) as (site, other):
        assert {site.get(f"/tiles/{number}").status for number in range(20)} == {200}
        assert len(other.asked) == 20
        assert {site.get("/admin/login/", method="POST").status for _ in range(20)} == {200}


def test_a_change_that_a_dying_main_has_got_is_not_sent_again(launch: Start) -> None:
    with two_mains(launch) as (site, other):
        other.answer = lambda asked: Answer(hang_up=asked.method == "POST")
        found = [site.get("/admin/login/", method="POST").status for _ in range(4)]
        assert set(found) == {503}
        assert 0 < len(other.asked) <= len(found)


def test_a_front_that_drains_says_so_whatever_main_says(launch: Start) -> None:
    site = launch()
    assert [site.get(path).status for path in ("/healthz/ready", "/healthz/live")] == [200, 200]
    site.front.runtime.draining.touch()
    for host in (None, "another.example"):
        answer = site.get("/healthz/ready", host)
        assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
        assert site.get("/healthz/live", host).status == 200
    assert site.get("/tiles/a").status == 200


SHED = ["/tiles/a", "/", "/api/layers", "/administration"]
NEVER_SHED = ["/admin", "/admin/", "/websub/a", "/rsscloud/a", "/healthz", "/metrics"]


@pytest.mark.parametrize("target", [*SHED, *NEVER_SHED])
def test_main_is_told_when_a_client_came_whose_request_it_may_shed(site: RunningFront, target: str) -> None:
    before = time.time()
    site.get(target, X_Front_Since="1")
    since = site.main.asked[0].headers.get("x-front-since")
    assert (since is None) == (target in NEVER_SHED)
    assert since is None or before - 0.1 <= float(since) <= time.time()


@pytest.mark.parametrize("target", ["/tiles", "/api", "/static/resources"])
def test_a_slash_is_added_by_a_path_alone(start: Start, target: str) -> None:
    site = start(public_scheme="https", allowed_hosts=["maps.example"])  # which another port leads here from
    (site.front.data.static / "resources").mkdir(parents=True, exist_ok=True)
    answer = site.get(target, host="maps.example")
    assert (answer.status, answer.headers["Location"]) == (301, target + "/")


@pytest.mark.parametrize(
    ("fields", "is_page"),
    [
        ({"Sec_Fetch_Mode": "navigate", "Accept": "text/html,*/*;q=0.8"}, True),
        ({"Accept": "text/html,application/xml;q=0.9"}, True),
        ({"Sec_Fetch_Mode": "no-cors", "Accept": "image/*,*/*;q=0.8"}, False),
        ({"Accept": "text/html;q=0, */*"}, False),
    ],
)
def test_without_main_people_see_a_page(site: RunningFront, fields: dict[str, str], is_page: bool) -> None:
    site.main.close()
    site.retry.close()
    for target in ("/feeds/", "/retry_after?key=a"):
        answer = site.get(target, **fields)
        assert (answer.status, answer.headers["Retry-After"], answer.headers["Cache-Control"]) == (503, "1", "no-store")
        assert answer.headers["Content-Type"].startswith("text/html") == is_page
        assert answer.headers["Vary"] == "Accept, Sec-Fetch-Mode"


@pytest.mark.parametrize("target", ["/tiles/a", "/", "/admin/", "/api/layers", "/healthz"])
def test_without_main_the_answer_is_a_503_that_says_when_to_come_back(site: RunningFront, target: str) -> None:
    site.main.close()
    answer = site.get(target)
    assert answer.status == 503
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.headers["Retry-After"] == "1"
    assert answer.headers["Cache-Control"] == "no-store"
    assert json.loads(answer.body)["status"] == 503


@pytest.mark.parametrize("probe", ["/healthz/live", "/healthz/ready", "/metrics"])
def test_balancers_and_prometheus_ask_main_under_any_host(site: RunningFront, probe: str) -> None:
    assert site.get(probe, host="10.0.0.7").status == 200
    [asked] = site.main.asked
    assert (asked.target, asked.headers["host"]) == (probe, "localhost")
    assert asked.headers["x-forwarded-for"] == "127.0.0.1"
    assert "uninitialized" not in site.log.read_text()  # a line for each check
    site.main.close()
    answer = site.get(probe, host="10.0.0.7")
    assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
    assert answer.headers["Content-Type"] == "application/problem+json"


def test_what_main_says_with_503_is_left_as_it_is(site: RunningFront) -> None:
    site.main.answer = lambda _: Answer(503, {"Cache-Control": "no-store", "Retry-After": "7"}, b"busy")
    answer = site.get("/tiles/a")
    assert (answer.status, answer.body, answer.headers["Retry-After"]) == (503, b"busy", "7")


def test_long_tickets_come_through(site: RunningFront) -> None:
    location = "/retry_after?redirect=" + "x" * 7000
    site.main.answer = lambda _: Answer(302, {"Location": location, "Cache-Control": "no-store"}, b"")
    assert site.get("/tiles/a").headers["Location"] == location
    assert site.get(location).status == 200


@pytest.mark.parametrize("target", ["/admin/feeds/feed/import/", "/api/layers/jams/speeds"])
def test_a_body_that_is_too_large_is_refused_in_words(site: RunningFront, target: str) -> None:
    answer = site.get(target, method="POST", Content_Length="200000", Cookie="sessionid=a", Authorization="Bearer a")
    assert (answer.status, answer.headers["Content-Type"]) == (413, "application/problem+json")
    assert b"100000 bytes" in answer.body


def test_what_the_api_says_is_not_kept_and_knows_no_cookies(site: RunningFront) -> None:
    for _ in range(2):
        assert not site.get("/api/layers", Cookie="sessionid=a", Authorization="Bearer b").cached
    assert [asked.headers.get("cookie") for asked in site.main.asked] == [None, None]
    assert [asked.headers["authorization"] for asked in site.main.asked] == ["Bearer b", "Bearer b"]


@pytest.mark.parametrize(
    ("target", "allowed"),
    [
        ("/tiles/a", "GET, HEAD, OPTIONS"),
        ("/api/layers", "GET, HEAD, POST, PUT, PATCH, DELETE"),
        ("/admin/", "GET, HEAD, POST"),
        ("/websub/a", "GET, POST"),
        ("/hub", "POST"),
        ("/", "GET, HEAD, OPTIONS"),
    ],
)
def test_a_method_that_nginx_refuses_itself_is_a_problem(site: RunningFront, target: str, allowed: str) -> None:
    answer = site.get(target, method="TRACE")
    assert answer.status == 405
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.headers["Allow"] == allowed
    assert json.loads(answer.body)["status"] == 405
    assert site.main.asked == []


@pytest.mark.parametrize("method", ["POST", "PUT", "OPTIONS"])
def test_static_files_are_only_read(site: RunningFront, method: str) -> None:
    (site.front.data.static / "map.js").write_text("1")
    answer = site.get("/static/map.js", method=method)
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
    assert json.loads(answer.body)["status"] == 405


def test_other_hosts_are_told_of_methods_too(site: RunningFront) -> None:
    answer = site.get("/", "elsewhere.example", method="TRACE")
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD, OPTIONS")


def test_a_trusted_proxy_is_believed(start: Start) -> None:
    site = start(trusted_proxies=("127.0.0.1",), public_scheme="https")
    site.get("/tiles/a", X_Forwarded_For="192.0.2.7")
    asked = site.main.asked[0].headers
    assert (asked["x-real-ip"], asked["x-forwarded-proto"]) == ("192.0.2.7", "https")


def test_metrics_are_told_that_another_proxy_stood_between(site: RunningFront) -> None:
    site.get("/metrics")
    site.get("/metrics", X_Forwarded_For="192.0.2.7")
    direct, passed_on = (asked.headers for asked in site.main.asked)
    assert "x-forwarded-for" not in direct
    assert passed_on["x-forwarded-for"] == "192.0.2.7"


def test_static_files_are_kept_for_long_when_their_names_change_with_them(site: RunningFront) -> None:
    directory = site.front.data.static
    (directory / "map.0123456789ab.js").write_text("1")
    (directory / "map.js").write_text("1")
    assert "immutable" in site.get("/static/map.0123456789ab.js").headers["Cache-Control"]
    assert site.get("/static/map.js").headers["Cache-Control"] == "public, max-age=300"
    assert site.get("/static/../db.sqlite3").status == 200  # main's to answer, as any other address
    assert site.main.asked[-1].target == "/db.sqlite3"


@pytest.mark.parametrize("beginning", ["/tiles/a", "/feeds/a?q=", "/resources/a", "/retry_after?a=", "/admin/a", "/a"])
def test_no_address_ends_a_field_on_its_way(site: RunningFront, beginning: str) -> None:
    answer = site.get(f"{beginning}%0d%0aX-Injected:%20yes%0d%0a%0d%0aGET%20/tiles/b%20HTTP/1.1%0d%0a%0d%0a")
    [asked] = [*site.main.asked, *site.retry.asked]
    assert "x-injected" not in asked.headers
    assert "X-Injected" not in answer.headers


TIMES = 15
ACKNOWLEDGED_LATE_SECONDS = 0.04
"""How long Linux holds an acknowledgement back at least."""


@pytest.mark.parametrize("size", [10_000, 70_000, 100_000, 130_000])
def test_the_end_of_an_answer_does_not_wait_for_an_acknowledgement(site: RunningFront, size: int) -> None:
    site.main.answer = lambda _: Answer(headers=HOT, body=bytes(size))
    connection = HTTPConnection("127.0.0.1", site.port, timeout=10)
    try:
        assert median(_seconds(connection, site.host) for _ in range(TIMES)) < ACKNOWLEDGED_LATE_SECONDS / 2
    finally:
        connection.close()


def _seconds(connection: HTTPConnection, host: str) -> float:
    began = time.perf_counter()
    connection.request("GET", "/tiles/a", headers={"Host": host})
    connection.getresponse().read()
    return time.perf_counter() - began
