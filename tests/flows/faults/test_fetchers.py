"""Fetchers of which one is killed, judged by the origins: nothing is lost, and each host has one owner."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import quote
from uuid import uuid4

import pytest

from tests.hostile import secret_origins
from tests.hostile.secret_origins import SecretOrigins
from tests.support.crowd import Crowd
from tests.support.fetcher_processes import FurtherFetcher
from tests.support.stack import Stack, eventually

IN_FLIGHT = 2
LIMITS: list[dict[str, float]] = [
    {"rate": 40, "latency": 0.02},
    {"rate": 20, "latency": 0.1, "retry_after": 1},
    {"rate": 8, "latency": 0.05, "retry_after": 2},
    {"rate": 100, "latency": 0.3, "most_at_once": 2},
]
PAGES = 25


@pytest.fixture
def origins(tmp_path: Path) -> Iterator[SecretOrigins]:
    with secret_origins.running(tmp_path / "asked", LIMITS, 120) as found:
        yield found


def served(origins: SecretOrigins) -> int:
    return len({(one.domain, one.path) for one in origins.asked() if one.served})


@pytest.mark.no_database
def test_killed_fetchers_lose_nothing_and_stay_polite(stack: Stack, crowd: Crowd, origins: SecretOrigins) -> None:
    urls = [origins.url(domain, page) for page in range(PAGES) for domain in range(1, len(LIMITS) + 1)]
    kills = 0
    with FurtherFetcher(stack), FurtherFetcher(stack):
        addresses = [f"/fetched/?url={quote(url, safe='')}" for url in urls]
        waiting = crowd.send(addresses, patient=True)
        for goal in (0.2, 0.4, 0.6):
            eventually(lambda goal=goal: served(origins) >= goal * len(urls), 40, "pages are served")  # type: ignore[misc]
            stack.kill("fetch")
            kills += 1
        visits = waiting.result(60)
    assert all(visit.status == 200 or visit.is_honest_refusal for visit in visits)
    assert all(visit.body == b"page" for visit in crowd.insist(addresses))
    seen = origins.asked()
    assert not [one for one in seen if one.early]
    # Only a killed fetcher's request at an origin, beside those of the others, makes one too many.
    assert len([one for one in seen if not one.served]) <= len(seen) // 100 + kills * IN_FLIGHT
    times_served = Counter((one.domain, one.path) for one in seen if one.served)
    twice = [page for page, times in times_served.items() if times > 1]
    assert len(twice) <= kills * IN_FLIGHT * len(LIMITS)
    # A killed fetcher's requests go on at the origin for a moment, beside those of the others.
    assert max(one.at_once for one in seen) <= 2 * IN_FLIGHT


class Witness(BaseHTTPRequestHandler):
    """Answers pages, over connections that are kept, and notes which fetcher asks which host."""

    protocol_version = "HTTP/1.1"
    seen: list[tuple[str, str]]

    def do_GET(self) -> None:
        self.seen.append((self.headers["Host"], self.headers["User-Agent"]))
        self.send_response(200)
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"page")

    def log_message(self, *_: object) -> None:
        """Writes nothing."""


@pytest.fixture
def witnesses() -> Iterator[list[str]]:
    """The hosts, with their ports."""
    Witness.seen = []
    with ExitStack() as stack:
        servers = [stack.enter_context(ThreadingHTTPServer((f"127.0.7.{last}", 0), Witness)) for last in range(1, 11)]
        for server in servers:
            Thread(target=server.serve_forever, daemon=True).start()
            stack.callback(server.shutdown)
        yield [f"127.0.7.{last}:{server.server_port}" for last, server in enumerate(servers, 1)]


def askers(crowd: Crowd, hosts: list[str], name: str) -> dict[str, set[str]]:
    """The fetchers that fetch pages of these hosts, by host."""
    Witness.seen.clear()
    urls = [f"http://{host}/{name}-{page}" for page in range(3) for host in hosts]
    visits = crowd.insist([f"/fetched/?url={quote(url, safe='')}" for url in urls], 40)
    assert all(visit.body == b"page" for visit in visits)
    seen = {host: {agent for at, agent in Witness.seen if at == host} for host, _ in Witness.seen}
    assert len(seen) == len(hosts)
    return seen


def settled_askers(crowd: Crowd, hosts: list[str]) -> dict[str, set[str]]:
    """The same, once each host has one, and both have hosts: fetchers lend domains that they are late with."""
    found: dict[str, set[str]] = {}

    def are_shared_out() -> bool:
        found.update(askers(crowd, hosts, uuid4().hex))
        return all(len(agents) == 1 for agents in found.values()) and len(set.union(*found.values())) == 2

    eventually(are_shared_out, 60, "each host is asked by one fetcher, and some by each")
    return found


@pytest.mark.no_database
def test_each_host_is_asked_by_one_fetcher_and_by_another_when_that_one_is_killed(
    stack: Stack, crowd: Crowd, witnesses: list[str]
) -> None:
    with FurtherFetcher(stack, FETCH_CONTACT="further.example") as further:
        eventually(lambda: stack.state.hlen("fetch:{0}:owned") == 2, 40, "both own domains")
        first = settled_askers(crowd, witnesses)
        assert askers(crowd, witnesses, "second") == first
        further.kill_for_good()
        third = askers(crowd, witnesses, "third")
    assert not any("further.example" in agent for agents in third.values() for agent in agents)
