"""WebSub: where a feed is subscribed to, what its hub is asked, and what it may say."""

from datetime import timedelta
from urllib.parse import parse_qs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feeds.pushing import websub
from feeds.pushing.websub import Announced, Denial, Linked, Question

URL, HUB, TOPIC = "https://example.org/feed", "https://hub.example.net/", "https://example.org/feed.xml"
DAY = timedelta(days=1)


def form(body: bytes) -> dict[str, list[str]]:
    return parse_qs(body.decode(), strict_parsing=True)


def test_what_link_fields_say_goes_before_the_document() -> None:
    linked = Linked.read([f"<{HUB}>; rel=hub, <{TOPIC}>; rel=self"], URL)
    found = websub.announced(linked, ["https://other.example/hub"], "https://other.example/feed", URL)
    assert found == Announced((HUB,), TOPIC)


def test_what_link_fields_leave_out_is_by_the_document() -> None:
    assert websub.announced(Linked(), [HUB, HUB], TOPIC, URL) == Announced((HUB,), TOPIC)
    assert websub.announced(Linked(hubs=(HUB,)), [], TOPIC, URL) == Announced((HUB,), TOPIC)
    assert websub.announced(Linked(topic=TOPIC), [HUB], "", URL) == Announced((HUB,), TOPIC)


def test_a_feed_that_does_not_say_its_address_is_known_by_where_it_was_found() -> None:
    assert websub.announced(Linked(), [HUB], "", f"{URL}#feed-1") == Announced((HUB,), URL)


def test_a_feed_without_hub_has_nowhere_to_subscribe() -> None:
    assert websub.announced(Linked(topic=TOPIC), [""], TOPIC, URL) is None


def test_links_are_kept_as_they_were() -> None:
    for linked in (Linked(), Linked((HUB,), TOPIC), Linked((HUB,))):
        assert Linked.from_json(linked.to_json()) == linked


def test_the_forms_are_those_of_the_recommendation() -> None:
    callback = "https://tarry.example/websub/abc"
    asked = {"hub.mode": ["subscribe"], "hub.topic": [TOPIC], "hub.callback": [callback]}
    asked["hub.lease_seconds"] = ["864000"]
    assert form(websub.subscription(TOPIC, callback, "", 10 * DAY)) == asked
    assert form(websub.subscription(TOPIC, callback, "s", 10 * DAY)) == {**asked, "hub.secret": ["s"]}
    ended = {"hub.mode": ["unsubscribe"], "hub.topic": [TOPIC], "hub.callback": [callback]}
    assert form(websub.end(TOPIC, callback)) == ended
    assert form(websub.publication(TOPIC)) == {"hub.mode": ["publish"], "hub.url": [TOPIC], "hub.topic": [TOPIC]}


def asking(mode: str = "subscribe", **more: str) -> dict[str, str]:
    fields = {"hub.mode": mode, "hub.topic": TOPIC, "hub.challenge": "abc", "hub.lease_seconds": "86400"}
    return {**fields, **{f"hub.{name}": value for name, value in more.items()}}


@pytest.mark.parametrize(
    ("parameters", "heard"),
    [
        pytest.param(asking(), Question("subscribe", TOPIC, "abc", DAY), id="wanted?"),
        pytest.param(asking("unsubscribe"), Question("unsubscribe", TOPIC, "abc", DAY), id="its end?"),
        pytest.param(asking(lease_seconds=""), Question("subscribe", TOPIC, "abc", None), id="no lease"),
        pytest.param(asking(lease_seconds="-5"), Question("subscribe", TOPIC, "abc", None), id="below zero"),
        pytest.param(asking(lease_seconds="0"), Question("subscribe", TOPIC, "abc", None), id="zero"),
        pytest.param(asking(lease_seconds="١٢"), Question("subscribe", TOPIC, "abc", None), id="other digits"),
        pytest.param(asking(lease_seconds="9" * 99), Question("subscribe", TOPIC, "abc", None), id="huge"),
        pytest.param(asking("denied", reason="no\n such"), Denial(TOPIC, "no such"), id="denied"),
        pytest.param(asking("denied", topic=""), None, id="denied of nothing"),
        pytest.param(asking("publish"), None, id="another mode"),
        pytest.param(asking(challenge=""), None, id="no challenge"),
        pytest.param(asking(challenge="x" * 3000), None, id="a challenge to make us send much"),
        pytest.param(asking(topic=""), None, id="no topic"),
        pytest.param({}, None, id="nothing"),
    ],
)
def test_what_a_hub_says_is_understood(parameters: dict[str, str], heard: Question | Denial | None) -> None:
    assert websub.heard(parameters) == heard


@given(st.dictionaries(st.sampled_from(list(asking(reason=""))), st.text(max_size=30)))
def test_whatever_comes_is_answered(parameters: dict[str, str]) -> None:
    heard = websub.heard(parameters)
    assert heard is None or heard.topic


@pytest.mark.parametrize(
    ("said", "granted"),
    [(None, 10 * DAY), (5 * DAY, 5 * DAY), (timedelta(seconds=1), timedelta(minutes=1)), (9999 * DAY, 365 * DAY)],
)
def test_the_lease_is_the_one_that_was_granted_within_reason(said: timedelta | None, granted: timedelta) -> None:
    assert websub.granted(said) == granted


def test_a_secret_goes_over_tls_or_where_it_protects_nothing_that_tls_would() -> None:
    assert websub.may_be_signed("https://hub.example", "https://example.org/feed")
    assert websub.may_be_signed("https://hub.example", "http://example.org/feed")
    assert websub.may_be_signed("http://hub.example", "http://example.org/feed")
    assert not websub.may_be_signed("http://hub.example", "https://example.org/feed")
