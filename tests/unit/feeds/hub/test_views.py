"""Requests at this site's hub and cloud: taken, refused, limited."""

import xmlrpc.client
from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client
from pytest_django import Settings

from feeds.hub_models import HubTopic, Subscriber
from feeds.push import rsscloud
from tests.support import feed_rows
from tests.support.feed_rows import entry

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("redis_servers")]

SITE = "https://tarry.example.org"
TOPIC, CALLBACK = f"{SITE}/feeds/sea.atom", "https://reader.example.net/callback?of=1"
FORM = "application/x-www-form-urlencoded"
ASKED = {"hub.mode": "subscribe", "hub.topic": TOPIC, "hub.callback": CALLBACK}
REGISTERED = {"port": "80", "path": "/ping", "protocol": "http-post", "url1": TOPIC, "domain": "reader.example.net"}


@pytest.fixture(autouse=True)
def _sea() -> None:
    feed_rows.category("earth", feed_rows.feed("sea", entry(1)))
    feed_rows.feed("hidden", is_hidden=True)


def ask(client: Client, **changed: str | None) -> Any:
    """Asks the hub for a subscription of `TOPIC`, with some fields changed, or left out."""
    named = {name.replace("_", ".", 1): value for name, value in changed.items()}
    form = {name: value for name, value in {**ASKED, **named}.items() if value is not None}
    return client.post("/hub", urlencode(form), content_type=FORM)


def register(client: Client, **changed: str) -> tuple[bool, str]:
    """Registers at the cloud. Returns its answer: success, and its message."""
    answered = client.post("/hub/cloud", urlencode({**REGISTERED, **changed}), content_type=FORM, REMOTE_ADDR="8.8.4.4")
    assert answered.status_code == 200
    root = rsscloud.parse_tree(answered.content)
    return root.get("success") == "true", str(root.get("msg"))


@pytest.mark.parametrize("path", ["/feeds/sea.atom", "/feeds/sea.json", "/feeds/all.rss", "/feeds/category/earth.atom"])
def test_a_subscription_of_any_output_is_noted_and_nothing_is_promised(client: Client, path: str) -> None:
    answered = ask(client, hub_topic=f"{SITE}{path}", hub_secret="known to both")
    assert answered.status_code == 202
    row = Subscriber.objects.get()
    assert (row.topic.path, row.callback, row.state, row.intent) == (path, CALLBACK, "asked", "subscribe")
    assert row.host == "example.net"
    assert "known" not in row.asked_secret
    assert (row.sealed_secret, row.expires_at, row.due_at) == ("", None, None)


def test_a_lease_is_granted_within_bounds(client: Client, settings: Settings) -> None:
    settings.FEEDS_HUB_LEASE_DAYS, settings.FEEDS_HUB_MAX_LEASE_DAYS = 5, 20
    found = []
    for asked in (None, "7200", "1", "99999999"):
        ask(client, hub_lease_seconds=asked)
        found.append(Subscriber.objects.get().asked_seconds)
    assert found == [5 * 86_400, 7200, 60, 20 * 86_400]


REFUSED = {
    "no mode": ({"hub_mode": None}, 400),
    "another mode": ({"hub_mode": "denied"}, 400),
    "a publication": ({"hub_mode": "publish"}, 400),
    "no topic": ({"hub_topic": ""}, 400),
    "no callback": ({"hub_callback": None}, 400),
    "a topic elsewhere": ({"hub_topic": "https://elsewhere.example.org/feeds/sea.atom"}, 404),
    "a topic at a host that begins alike": ({"hub_topic": f"{SITE}.example/feeds/sea.atom"}, 404),
    "a page for people": ({"hub_topic": f"{SITE}/feeds/sea/"}, 404),
    "a search": ({"hub_topic": f"{TOPIC}?q=storm"}, 404),
    "an unknown feed": ({"hub_topic": f"{SITE}/feeds/land.atom"}, 404),
    "a hidden feed": ({"hub_topic": f"{SITE}/feeds/hidden.atom"}, 404),
    "a tile": ({"hub_topic": f"{SITE}/tiles/a/1/1/1.png"}, 404),
    "a callback without host": ({"hub_callback": "https:///x"}, 400),
    "a callback of another scheme": ({"hub_callback": "ftp://reader.example.net/x"}, 400),
    "a callback at this machine": ({"hub_callback": "http://127.0.0.1/x"}, 403),
    "a callback at this machine, disguised": ({"hub_callback": "http://2130706433/x"}, 400),
    "a callback in a private network": ({"hub_callback": "http://[::ffff:10.0.0.1]/x"}, 403),
    "a callback at another port": ({"hub_callback": "http://reader.example.net:25/x"}, 403),
    "a callback here": ({"hub_callback": f"{SITE}/websub/x"}, 403),
    "a long callback": ({"hub_callback": f"{CALLBACK}{'x' * 2000}"}, 400),
    "a long secret": ({"hub_secret": "x" * 200}, 400),
    "a lease in words": ({"hub_lease_seconds": "long"}, 400),
    "an end of nothing": ({"hub_mode": "unsubscribe"}, 404),
    "a NUL": ({"hub_callback": f"{CALLBACK}\0"}, 400),
}


@pytest.mark.parametrize(("changed", "status"), REFUSED.values(), ids=REFUSED)
def test_a_request_that_cannot_be_fulfilled_is_refused_with_the_reason(
    client: Client, changed: dict[str, str | None], status: int
) -> None:
    answered = ask(client, **changed)
    assert (answered.status_code, answered["Content-Type"]) == (status, "application/problem+json")
    assert answered.json()["detail"]
    assert not Subscriber.objects.exists()


def test_what_is_no_form_or_too_large_is_refused_and_a_get_explained(client: Client) -> None:
    assert client.post("/hub", b"{}", content_type="application/json").status_code == 415
    assert client.post("/hub", b"a=" + b"x" * 20_000, content_type=FORM).status_code == 413
    assert client.post("/hub", b"\xff=\xff", content_type=FORM).status_code == 400
    assert client.post("/hub", "&".join("a=b" for _ in range(60)), content_type=FORM).status_code == 400
    assert client.post("/hub", urlencode([*ASKED.items(), *ASKED.items()]), content_type=FORM).status_code == 400
    got = client.get("/hub")
    assert (got.status_code, got["Allow"]) == (405, "POST")


@pytest.mark.parametrize("hub", ["", "https://hub.example/"])
def test_where_this_site_is_no_hub_nothing_is_taken(client: Client, settings: Settings, hub: str) -> None:
    settings.FEEDS_HUB = hub
    assert ask(client).status_code == 404
    assert client.post("/hub/cloud", urlencode(REGISTERED), content_type=FORM).status_code == 404


def test_a_client_may_ask_so_often_in_a_minute_and_others_are_not_counted_with_it(
    client: Client, settings: Settings
) -> None:
    settings.FEEDS_HUB_REQUESTS_PER_MINUTE = 3
    statuses = [
        client.post("/hub", urlencode(ASKED), content_type=FORM, REMOTE_ADDR=address).status_code
        for address in ("8.8.4.4", "8.8.4.4", "8.8.4.4", "8.8.4.4", "8.8.8.8")
    ]
    assert statuses in ([202, 202, 202, 429, 202], [202] * 5)  # the minute may end meanwhile
    refused = client.post("/hub", urlencode(ASKED), content_type=FORM, REMOTE_ADDR="8.8.4.4")
    assert refused.status_code in {202, 429}
    assert refused.status_code == 202 or int(refused["Retry-After"]) > 0


@pytest.mark.parametrize(
    ("name", "bound", "status"),
    [
        ("FEEDS_HUB_SUBSCRIBERS", 2, 503),
        ("FEEDS_HUB_SUBSCRIBERS", 20, 503),  # the tenth part may wait for verification
        ("FEEDS_HUB_TOPIC_SUBSCRIBERS", 2, 503),
        ("FEEDS_HUB_HOST_SUBSCRIBERS", 2, 403),
    ],
)
def test_no_more_subscribers_are_taken_than_the_bounds_allow(
    client: Client, settings: Settings, name: str, bound: int, status: int
) -> None:
    setattr(settings, name, bound)
    if (name, bound) == ("FEEDS_HUB_SUBSCRIBERS", 2):
        settings.FEEDS_HUB_SUBSCRIBERS = 2
    statuses = [ask(client, hub_callback=f"{CALLBACK}{number}").status_code for number in range(3)]
    assert statuses[-1] == status
    assert statuses[0] == 202
    assert ask(client, hub_callback=f"{CALLBACK}0").status_code == 202  # the same again is not one more


def test_one_domain_has_a_quarter_of_the_places_for_requests_that_wait(client: Client, settings: Settings) -> None:
    settings.FEEDS_HUB_SUBSCRIBERS = 80  # eight may wait
    for number in range(2):
        assert ask(client, hub_callback=f"https://silent.example.net/{number}").status_code == 202
    refused = ask(client, hub_callback="https://silent.example.net/2")
    assert (refused.status_code, int(refused["Retry-After"]) > 0) == (503, True)
    assert b"of example.net are being verified" in refused.content
    assert ask(client, hub_callback="https://reader.example.org/").status_code == 202


def test_a_registration_by_form_is_noted_for_each_feed(client: Client) -> None:
    assert register(client, url2=f"{SITE}/feeds/all.rss")[0]
    rows = Subscriber.objects.order_by("pk")
    assert [row.topic.path for row in rows] == ["/feeds/sea.atom", "/feeds/all.rss"]
    assert {(row.callback, row.is_named, row.asked_seconds) for row in rows} == {
        ("http://reader.example.net/ping", True, 25 * 3600)
    }


def test_a_registration_without_a_domain_is_for_the_address_that_it_came_from(client: Client) -> None:
    assert register(client, domain="", port="8080")[0]
    row = Subscriber.objects.get()
    assert (row.callback, row.is_named) == ("http://8.8.4.4:8080/ping", False)


def test_a_registration_by_xml_rpc_is_answered_in_kind(client: Client) -> None:
    def call(*given: Any) -> bytes:
        body = xmlrpc.client.dumps(given, "rssCloud.pleaseNotify")
        return client.post("/hub/cloud", body, content_type="text/xml", REMOTE_ADDR="8.8.4.4").content

    taken = call("told", 5337, "/RPC2", "xml-rpc", [TOPIC], "reader.example.net")
    assert xmlrpc.client.loads(taken)[0] == (True,)
    row = Subscriber.objects.get()
    assert (row.callback, row.procedure) == ("http://reader.example.net:5337/RPC2", "told")
    for wrong in (
        ("told", 80, "/", "xml-rpc"),
        ("told", 80, "/", "xml-rpc", [TOPIC], "127.0.0.1"),
        ("", 80, "/", "soap", [TOPIC]),
    ):
        with pytest.raises(xmlrpc.client.Fault):
            xmlrpc.client.loads(call(*wrong))


@pytest.mark.parametrize(
    "changed",
    [
        {"url1": ""},
        {"url1": "https://elsewhere.example.org/feed"},
        {"protocol": "soap"},
        {"protocol": "xml-rpc"},
        {"port": "http"},
        {"port": "70000"},
        {"port": "25"},
        {"path": "x" * 1001},
        {"domain": "127.0.0.1"},
        {"domain": "reader.example.net/x?"},
        {f"url{number}": f"{TOPIC}{number}" for number in range(20)},
    ],
)
def test_a_registration_that_cannot_be_fulfilled_is_an_answer_without_success(
    client: Client, changed: dict[str, str]
) -> None:
    success, message = register(client, **changed)
    assert not success
    assert message
    assert not Subscriber.objects.exists()


def test_a_feed_that_takes_the_slug_of_another_is_another_topic(client: Client) -> None:
    ask(client)
    HubTopic.objects.get().feed.delete()  # type: ignore[union-attr]
    feed_rows.feed("sea")
    assert ask(client).status_code == 202
    assert Subscriber.objects.count() == 2
    assert HubTopic.objects.count() == 2
