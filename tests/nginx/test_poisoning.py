"""No request can change another one's answer: the cache's answer is that of the origin."""

import itertools
import random

import pytest

from .conftest import RunningFront, Start
from .origin import PRIVATE, Answer

TARGETS = [
    *("/tiles/a/1/2/3.png", "/tiles/a/1/2/3.png?x=1", "/tiles/a/1/2/3.png?", "/tiles//a/1/2/3.png"),
    *("//tiles/a/1/2/3.png", "/tiles/a/1/2/3.png%3Fx=1", "/tiles/a%2F1/2/3.png", "/tiles/a/1/2/3.png%00"),
    *("/TILES/a/1/2/3.png", "/tiles/A/1/2/3.png", "/tiles/a/1/2/3.png%20", "/tiles/a/1/2/3.png%0A"),
    *("/tiles/a/1/2/3.png%0A?x=1", "/tiles/./a/1/2/3.png", "/tiles/b/../a/1/2/3.png", "/tiles/a/1/2/3.png/"),
    *("/tiles/%61/1/2/3.png", "/tiles/a/1/2/3%2Epng", "/tiles/a/1/2/3.png;x=1", "/tiles/a/1/2/3.png%23x"),
    *("/feeds/all.atom", "/feeds/all.atom?q=x", "/feeds/all.atom%3Fq=x", "/feeds/all.atom%3fq=x?", "/feeds//all.atom"),
    *("/feeds/all.atom?q=x&q=y", "/feeds/all.atom?q=y&q=x", "/feeds/all.atom?q=%20", "/feeds/all.atom?q=+"),
    *("/feeds/all.atom?Q=x", "/feeds/%20all.atom", "/feeds/x%20/feeds/all.atom", "/feeds%2Fall.atom?q=x"),
    *("/?q=x", "/", "//", "/%3Fq=x", "/%2F", "/feeds/%25", "/feeds/%2525", "/feeds/+", "/feeds/%2B"),
    *("/x/..%2Ffeeds/all.atom", "/feeds/all.atom?a=b%20/feeds/other", "/feeds/ü".encode().decode("latin-1")),
]
HOSTS = ["localhost", "LOCALHOST", "localhost:8000", "localhost:9", "a.tarry.example", "b.tarry.example", "127.0.0.1"]
EVIL_HOSTS = ["evil.example", "localhost.evil.example", "localhost@evil.example", "tarry.example.evil"]


@pytest.mark.parametrize("seed", range(2))
def test_the_cache_never_changes_an_answer(launch: Start, seed: int) -> None:
    site, requests = launch(), list(itertools.product(TARGETS, HOSTS[:3] if seed else HOSTS))
    site.main.answer = lambda _: Answer(headers=PRIVATE)
    expected = {request: site.get(*request) for request in requests}
    site.main.answer = lambda _: Answer()
    shuffled = random.Random(seed).sample(requests, len(requests))
    for request in [*shuffled, *shuffled]:
        found = site.get(*request)
        assert (found.status, found.body) == (expected[request].status, expected[request].body), request


def test_a_repeated_request_is_answered_from_the_cache_whatever_its_form(site: RunningFront) -> None:
    for target in TARGETS:
        if site.get(target).status == 200:
            assert site.get(target).cached, target


@pytest.mark.parametrize("target", ["/tiles/a.png?x=1", "/tiles/a.png?", "/tiles//a.png", "/tiles/b/../a.png?y"])
def test_tiles_have_one_entry_whatever_the_arguments(site: RunningFront, target: str) -> None:
    site.get("/tiles/a.png")
    assert site.get(target).cached
    assert [asked.target for asked in site.main.asked] == ["/tiles/a.png"]


def test_thumbnails_have_an_entry_for_each_fit_and_mirrored_files_one(site: RunningFront) -> None:
    blob = f"/resources/{'0a' * 32}"
    for target in (f"{blob}/9x9.png", f"{blob}/9x9.png?fit=crop", f"{blob}/9x9.png?fit=crop", blob, f"{blob}?x=1"):
        site.get(target)
    assert [asked.target for asked in site.main.asked] == [f"{blob}/9x9.png", f"{blob}/9x9.png?fit=crop", blob]


def test_a_port_that_is_not_the_sites_makes_no_entry_of_its_own(start: Start) -> None:
    site = start(public_port=8443)
    own = ["localhost", f"localhost:{site.port}", "localhost:8443"]
    for host in [*own, "localhost:1", "localhost:65000", "LOCALHOST:80"]:
        site.get("/tiles/a", host)
    assert [asked.headers["host"] for asked in site.main.asked] == own


@pytest.mark.parametrize("target", ["/admin/login/", "/api/layers"])
def test_what_is_never_kept_is_told_any_port(site: RunningFront, target: str) -> None:
    site.get(target, "localhost:9")
    assert [asked.headers["host"] for asked in site.main.asked] == ["localhost:9"]


@pytest.mark.parametrize("host", [*EVIL_HOSTS, "", "local host"])
def test_an_unknown_host_gets_nothing(site: RunningFront, host: str) -> None:
    site.get("/tiles/a")
    assert site.get("/tiles/a", host).status in {400, 421}
    assert len(site.main.asked) == 1


def test_the_host_in_the_request_line_counts(site: RunningFront) -> None:
    assert site.get("http://evil.example/tiles/a", "localhost").status == 421
    assert site.main.asked == []


@pytest.mark.parametrize("name", ["X-Forwarded-Host", "Forwarded", "X-Forwarded-Proto", "X-Forwarded-For", "X-Real-IP"])
def test_a_field_of_a_proxy_that_a_client_sends_is_dropped(site: RunningFront, name: str) -> None:
    site.get("/tiles/a", **{name: "evil.example"})
    assert "evil.example" not in site.main.asked[0].headers.values()


def test_encodings_are_the_fronts_affair(site: RunningFront) -> None:
    site.get("/tiles/a", Accept_Encoding="br, gzip")
    assert "accept-encoding" not in site.main.asked[0].headers
