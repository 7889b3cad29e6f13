"""Three fetchers, of which one is killed again and again, judged by the origins' log."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

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
