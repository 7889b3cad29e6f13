"""WebSub: topics and hubs, requests to them, Link header fields, signatures of deliveries by every method."""

import hashlib
import hmac
from datetime import timedelta
from urllib.parse import parse_qs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feeds.push import websub
from feeds.push.websub import HubDenial, HubQuestion, LinkedHubs, find_linked_addresses, is_signature_valid, sign_body
from tests.support.processor_time import within

URL, HUB, TOPIC = "https://example.org/feed", "https://hub.example.net/", "https://example.org/feed.xml"
DAY = timedelta(days=1)


def form(body: bytes) -> dict[str, list[str]]:
    return parse_qs(body.decode(), strict_parsing=True)


@pytest.mark.parametrize(
    ("linked", "hubs", "itself", "found"),
    [
        pytest.param(LinkedHubs((HUB,), TOPIC), ["https://other.example/hub"], "https://other.example/feed",
                     LinkedHubs((HUB,), TOPIC), id="Link fields first"),
        pytest.param(LinkedHubs(), [HUB, HUB], TOPIC, LinkedHubs((HUB,), TOPIC), id="the document alone"),
        pytest.param(LinkedHubs(hubs=(HUB,)), [], TOPIC, LinkedHubs((HUB,), TOPIC), id="the document's address"),
        pytest.param(LinkedHubs(topic=TOPIC), [HUB], "", LinkedHubs((HUB,), TOPIC), id="the document's hub"),
        pytest.param(LinkedHubs(), [HUB], "", LinkedHubs((HUB,), URL), id="by where it was found"),
        pytest.param(LinkedHubs(topic=TOPIC), [""], TOPIC, None, id="no hub"),
    ],
)  # fmt: skip
def test_hubs_and_topic_are_by_link_fields_then_by_the_document(
    linked: LinkedHubs, hubs: list[str], itself: str, found: LinkedHubs | None
) -> None:
    assert websub.find_announced_hubs(linked, hubs, itself, f"{URL}#feed-1") == found


def test_links_are_read_and_kept_as_they_were() -> None:
    for linked in (LinkedHubs(), LinkedHubs((HUB,), TOPIC), LinkedHubs((HUB,))):
        assert LinkedHubs.from_json(linked.to_json()) == linked
    assert LinkedHubs.read([f"<{HUB}>; rel=hub, <{TOPIC}>; rel=self"], URL) == LinkedHubs((HUB,), TOPIC)


def test_the_forms_are_those_of_the_recommendation() -> None:
    callback = "https://tarry.example/websub/abc"
    named = {"hub.topic": [TOPIC], "hub.callback": [callback]}
    asked = {"hub.mode": ["subscribe"], **named, "hub.lease_seconds": ["864000"]}
    assert form(websub.write_subscription_form(TOPIC, callback, "", 10 * DAY)) == asked
    assert form(websub.write_subscription_form(TOPIC, callback, "s", 10 * DAY)) == {**asked, "hub.secret": ["s"]}
    assert form(websub.write_unsubscription_form(TOPIC, callback)) == {"hub.mode": ["unsubscribe"], **named}
    told = {"hub.mode": ["publish"], "hub.url": [TOPIC], "hub.topic": [TOPIC]}
    assert form(websub.write_publication_form(TOPIC)) == told


def asking(mode: str = "subscribe", **more: str) -> dict[str, str]:
    fields = {"hub.mode": mode, "hub.topic": TOPIC, "hub.challenge": "abc", "hub.lease_seconds": "86400"}
    return {**fields, **{f"hub.{name}": value for name, value in more.items()}}


@pytest.mark.parametrize(
    ("parameters", "heard"),
    [
        pytest.param(asking(), HubQuestion("subscribe", TOPIC, "abc", DAY), id="wanted?"),
        pytest.param(asking("unsubscribe"), HubQuestion("unsubscribe", TOPIC, "abc", DAY), id="its end?"),
        pytest.param(asking(lease_seconds=""), HubQuestion("subscribe", TOPIC, "abc", None), id="no lease"),
        pytest.param(asking(lease_seconds="-5"), HubQuestion("subscribe", TOPIC, "abc", None), id="below zero"),
        pytest.param(asking(lease_seconds="0"), HubQuestion("subscribe", TOPIC, "abc", None), id="zero"),
        pytest.param(asking(lease_seconds="١٢"), HubQuestion("subscribe", TOPIC, "abc", None), id="other digits"),
        pytest.param(asking(lease_seconds="9" * 99), HubQuestion("subscribe", TOPIC, "abc", None), id="huge"),
        pytest.param(asking("denied", reason="no\n such"), HubDenial(TOPIC, "no such"), id="denied"),
        pytest.param(asking("denied", topic=""), None, id="denied of nothing"),
        pytest.param(asking("publish"), None, id="another mode"),
        pytest.param(asking(challenge=""), None, id="no challenge"),
        pytest.param(asking(challenge="x" * 3000), None, id="a challenge to make us send much"),
        pytest.param(asking(topic=""), None, id="no topic"),
        pytest.param({}, None, id="nothing"),
    ],
)
def test_what_a_hub_says_is_understood(parameters: dict[str, str], heard: HubQuestion | HubDenial | None) -> None:
    assert websub.read_hub_call(parameters) == heard


@given(st.dictionaries(st.sampled_from(list(asking(reason=""))), st.text(max_size=30)))
def test_whatever_comes_is_answered(parameters: dict[str, str]) -> None:
    heard = websub.read_hub_call(parameters)
    assert heard is None or heard.topic


@pytest.mark.parametrize(
    ("said", "granted"),
    [(None, 10 * DAY), (5 * DAY, 5 * DAY), (timedelta(seconds=1), timedelta(minutes=1)), (9999 * DAY, 365 * DAY)],
)
def test_the_lease_is_the_one_that_was_granted_within_reason(said: timedelta | None, granted: timedelta) -> None:
    assert websub.granted_lease(said) == granted


def test_a_secret_goes_over_tls_or_where_it_protects_nothing_that_tls_would() -> None:
    assert websub.may_be_signed("https://hub.example", "https://example.org/feed")
    assert websub.may_be_signed("https://hub.example", "http://example.org/feed")
    assert websub.may_be_signed("http://hub.example", "http://example.org/feed")
    assert not websub.may_be_signed("http://hub.example", "https://example.org/feed")


BASE, HUBS = "https://example.org/blog/feed.xml", (HUB,)


def hubs(values: list[str]) -> tuple[str, ...]:
    return find_linked_addresses(("hub",), values, BASE)["hub"]


@pytest.mark.parametrize(
    ("values", "found"),
    [
        pytest.param(['<https://hub.example.net/>; rel="hub"'], HUBS, id="quoted"),
        pytest.param(["<https://hub.example.net/>; rel=hub"], HUBS, id="bare"),
        pytest.param(["<https://hub.example.net/>;REL=HUB"], HUBS, id="case"),
        pytest.param(['<https://hub.example.net/>; rel="self  hub"'], HUBS, id="several relations"),
        pytest.param(['</feed>; rel="self", <https://hub.example.net/>; rel="hub"'], HUBS, id="one field"),
        pytest.param(['</feed>; rel="self"', '<https://hub.example.net/>; rel="hub"'], HUBS, id="two fields"),
        pytest.param(['</a>; title="a, <b>; rel=hub"; rel=next, <https://hub.example.net/>; rel=hub'],
                     HUBS, id="commas in quotes"),
        pytest.param(["</a,b?c;d>; rel=hub"], ("https://example.org/a,b?c;d",), id="commas in the address"),
        pytest.param(["<hub>; rel=hub"], ("https://example.org/blog/hub",), id="relative"),
        pytest.param(["</b>; rel=hub, </a>; rel=hub, </b>; rel=hub"],
                     ("https://example.org/b", "https://example.org/a"), id="each once, in order"),
        pytest.param(["<https://hub.example.net/>; rel=next; rel=hub"], (), id="the first rel counts"),
        pytest.param(["</hub>; rel=hub; anchor='https://other.example'"], (), id="of something else"),
        pytest.param(["<ftp://hub.example.net/>; rel=hub"], (), id="another scheme"),
        pytest.param(["<javascript:alert(1)>; rel=hub"], (), id="no address"),
        pytest.param(['<https://hub.example.net/>; rel="hub'], (), id="quotes that do not end"),
        pytest.param(['</a>; title="a; rel=hub, </b>; rel=hub', "<https://hub.example.net/>; rel=hub"],
                     HUBS, id="quotes that do not end take the rest of their field"),
        pytest.param(['<https://hub.example.net/>; rel=hub; title="\\'],
                     HUBS, id="quotes that do not end after rel"),
        pytest.param(["https://hub.example.net/; rel=hub"], (), id="no brackets"),
        pytest.param([""], (), id="empty"),
    ],
)  # fmt: skip
def test_hubs_are_found_as_servers_write_them(values: list[str], found: tuple[str, ...]) -> None:
    assert hubs(values) == found


def test_several_relations_are_read_in_one_go() -> None:
    values = ["</feed>; rel=self, </1>; rel=hub", '</2>; rel="HUB self", </3>; rel=next']
    assert find_linked_addresses(("hub", "self", "other"), values, BASE) == {
        "hub": ("https://example.org/1", "https://example.org/2"),
        "self": ("https://example.org/feed", "https://example.org/2"),
        "other": (),
    }


def test_no_more_than_a_few_are_taken() -> None:
    assert len(hubs([", ".join(f"</{number}>; rel=hub" for number in range(99))])) == websub.MAX_ADDRESSES_PER_RELATION


def test_fields_are_read_as_far_as_is_allowed_for_all_of_them() -> None:
    link = "</next>; rel=next, "
    many = link * (websub.MAX_LINK_FIELDS_CHARACTERS // 2 // len(link))
    assert hubs([many, "<https://hub.example.net/>; rel=hub"]) == HUBS
    assert hubs([many, many, many, "<https://hub.example.net/>; rel=hub"]) == ()


@pytest.mark.parametrize(
    "part",
    [
        *('<a>\\"', '<a>; x="\\', '<a>; rel="', "<", "<a>;;;; ", '<a>"" ', "<a>; rel=hub; =", '"', "<a>; \t"),
        *('<a>"\\', "<a>; rel =", ';rel="', "<a>;rel"),
    ],
)
@pytest.mark.parametrize("end", ["", "\\", '"', "<"])
def test_a_field_that_is_made_to_take_long_does_not(part: str, end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websub, "MAX_LINK_FIELDS_CHARACTERS", 100_000)
    with within(2):
        hubs([part * (100_000 // len(part)) + end, end])


BODY, SECRET = b"<feed>\xff\x00</feed>\n", "s3cret"


@pytest.mark.parametrize("method", websub.SIGNATURE_METHODS)
def test_a_signature_by_each_method_holds(method: str) -> None:
    digest = hmac.new(SECRET.encode(), BODY, getattr(hashlib, method)).hexdigest()
    assert is_signature_valid(f"{method}={digest}", BODY, SECRET)
    assert is_signature_valid(f"{method.upper()}={digest.upper()}", BODY, SECRET)
    assert not is_signature_valid(f"{method}={digest}", BODY + b"\n", SECRET)
    assert not is_signature_valid(f"{method}={digest}", BODY, "another")


def test_a_signature_is_that_of_rfc_2202_and_4231() -> None:
    text = b"what do ya want for nothing?"
    assert sign_body(text, "Jefe", "sha1") == "sha1=effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"
    assert sign_body(text, "Jefe") == "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"


@pytest.mark.parametrize(
    "signature",
    [
        *("", "sha256", "sha256=", "=", "md5=5d41402abc4b2a76b9719d911017c592", "sha256=zz", "sha256=é", "sha3_256=00"),
        sign_body(BODY, SECRET)[:-1],
        sign_body(BODY, SECRET) + "0",
        sign_body(BODY, SECRET).replace("sha256", "sha512"),
        sign_body(BODY, SECRET).partition("=")[2],
        f"{sign_body(BODY, SECRET)}, {sign_body(BODY, SECRET)}",
    ],
)
def test_what_is_no_signature_of_the_body_does_not_hold(signature: str) -> None:
    assert not is_signature_valid(signature, BODY, SECRET)


def test_nothing_is_proven_without_a_secret() -> None:
    assert not is_signature_valid(sign_body(BODY, ""), BODY, "")
