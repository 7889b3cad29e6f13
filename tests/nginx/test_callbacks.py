"""Callbacks of hubs and clouds: bounded before main hears of them."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from ..support.stack import eventually
from .conftest import RunningFront
from .origin import Answer, Asked

PING, DELIVERY = "/rsscloud/a-token", "/websub/a-token"
"""Each address has a rate of its own: tests that send many calls have other ones."""
HUB, CLOUD = "/hub", "/hub/cloud"


def test_a_ping_reaches_main_and_is_never_kept(site: RunningFront) -> None:
    ping = "/rsscloud/another"
    assert [site.get(ping, method=method).status for method in ("POST", "GET", "GET")] == [200, 200, 200]
    assert [asked.method for asked in site.main.asked] == ["POST", "GET", "GET"]


@pytest.mark.parametrize(("address", "most"), [(PING, 8192), (DELIVERY, 50_000), (HUB, 16_384), (CLOUD, 16_384)])
def test_a_large_call_is_refused_before_its_body(site: RunningFront, address: str, most: int) -> None:
    assert requests.post(f"http://localhost:{site.port}{address}", data=b"x" * most, timeout=10).status_code == 200
    refused = site.get(address, method="POST", Content_Length=str(most + 1))
    assert (refused.status, json.loads(refused.body)["status"]) == (413, 413)
    assert [asked.method for asked in site.main.asked] == ["POST"]


def test_of_many_pings_at_one_address_main_hears_a_few_and_at_many_addresses_all(site: RunningFront) -> None:
    with ThreadPoolExecutor(40) as pool:
        at_one = list(pool.map(lambda _: site.get("/rsscloud/many", method="POST").status, range(40)))
        assert set(at_one) == {200, 429}
        assert len(site.main.asked) == at_one.count(200) <= 15
        at_many = list(pool.map(lambda each: site.get(f"{PING}{each}", method="POST").status, range(80)))
        assert at_many == [200] * 80


def test_no_log_names_an_address_that_is_a_secret_whatever_goes_wrong(site: RunningFront) -> None:
    def fail(asked: Asked) -> Answer:
        return Answer(500) if asked.method == "GET" else Answer(hang_up=True)

    site.main.answer = fail
    targets = (PING, DELIVERY, f"{PING}?challenge=a", f"/{PING}", "/%72sscloud/a-token", f"http://localhost{DELIVERY}")
    statuses = [site.get(target, method=method).status for target in targets for method in ("GET", "POST")]
    assert set(statuses) == {500, 503}
    for target in (PING, DELIVERY):
        assert site.get(target, method="POST", Content_Length="50001").status == 413
    with ThreadPoolExecutor(20) as pool:
        assert 429 in pool.map(lambda _: site.get(PING, method="POST").status, range(20))
    site.get("/elsewhere", method="POST")

    eventually(lambda: "POST /elsewhere HTTP" in site.log.read_text(), 5, "what goes wrong elsewhere is logged")
    log = site.log.read_text()
    assert '"request":"GET /rsscloud/..."' in log
    assert '"request":"GET /websub/..."' in log
    assert "a-token" not in log


def test_a_request_for_a_subscription_reaches_main_without_cookies_and_is_never_kept(site: RunningFront) -> None:
    for address in (HUB, CLOUD):
        assert [site.get(address, method="POST", Cookie="a=b").status for _ in range(2)] == [200, 200]
    assert [asked.method for asked in site.main.asked] == ["POST"] * 4
    assert not any(asked.headers.get("Cookie") for asked in site.main.asked)


def test_a_client_that_asks_for_very_many_subscriptions_at_once_is_refused(site: RunningFront) -> None:
    with ThreadPoolExecutor(200) as pool:
        statuses = list(pool.map(lambda _: site.get(HUB, method="POST").status, range(200)))
    assert set(statuses) == {200, 429}
    assert len(site.main.asked) == statuses.count(200)
