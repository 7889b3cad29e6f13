"""Requests to clouds, and the meaning of their answers."""

import xmlrpc.client
from urllib.parse import parse_qs

import pytest

from feeds.push import rsscloud
from feeds.push.kinds import PushKind
from feeds.push.leases import CLOUD_LEASE, LeaseGranted, RequestMissed, RequestRefused
from feeds.push.offers import PushOffer
from feeds.push.rsscloud import callback_ways, read_registration_answer, write_registration

FEED = "https://feed.example/rss?a=1&b=2"
REST = PushOffer(PushKind.RSSCLOUD, "http://cloud.example:5337/pleaseNotify", FEED)
CALLED = PushOffer(PushKind.RSSCLOUD, "http://cloud.example/RPC2", FEED, "rssCloud.<please>&Notify")
NAMED = {
    "notifyProcedure": [""],
    "registerProcedure": [""],
    "port": ["443"],
    "path": ["/rsscloud/token"],
    "protocol": ["https-post"],
    "url1": [FEED],
}


def form(asked: tuple[str, bytes]) -> dict[str, list[str]]:
    content_type, body = asked
    assert content_type == "application/x-www-form-urlencoded"
    return parse_qs(body.decode(), keep_blank_values=True)


def test_a_form_names_where_to_call_and_the_domain_so_that_it_is_verified() -> None:
    asked = form(write_registration(REST, "https://tarry.example/rsscloud/token"))
    assert asked == {**NAMED, "domain": ["tarry.example"]}


def test_clouds_that_know_no_https_are_given_port_80_and_those_that_know_no_domain_none() -> None:
    callback = "https://tarry.example/rsscloud/token"
    assert len(callback_ways(callback)) == 3
    plain = {**NAMED, "port": ["80"], "protocol": ["http-post"]}
    assert form(write_registration(REST, callback, 1)) == {**plain, "domain": ["tarry.example"]}
    assert form(write_registration(REST, callback, 2)) == plain


def test_over_http_the_port_is_that_of_the_url() -> None:
    callback = "http://tarry.example:8000/rsscloud/token"
    first, second = (form(write_registration(REST, callback, way)) for way in range(len(callback_ways(callback))))
    assert (first["port"], first["protocol"]) == (["8000"], ["http-post"])
    assert first == {**second, "domain": ["tarry.example"]}


@pytest.mark.parametrize(("way", "domain"), [(0, ("tarry.example",)), (1, ())])
def test_a_call_by_xml_rpc_says_the_same_in_its_order(way: int, domain: tuple[str, ...]) -> None:
    content_type, body = write_registration(CALLED, "http://tarry.example:8000/rsscloud/token", way)
    parameters, procedure = xmlrpc.client.loads(body)
    assert (content_type, procedure) == ("text/xml", "rssCloud.<please>&Notify")
    assert parameters == ("rssCloud.notify", 8000, "/rsscloud/token", "xml-rpc", [FEED], *domain)


@pytest.mark.parametrize(
    "body",
    [
        b'<notifyResult success="true"/>',
        b'<?xml version="1.0"?>\n<notifyResult success="TRUE" msg="Thanks."/>',
        b'<r:notifyResult xmlns:r="urn:r" success="1"></r:notifyResult>',
        b'{"success": true, "msg": "Thanks."}',
    ],
)
def test_success_is_a_lease_of_25_hours(body: bytes) -> None:
    assert read_registration_answer(body, was_called=False) == LeaseGranted(CLOUD_LEASE)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b'<notifyResult success="false" msg="No\n such  feed."/>', "No such feed."),
        (b'<notifyResult success="false"/>', "it gives no reason."),
        (b'{"success": false, "msg": "No such feed"}', "No such feed."),
    ],
)
def test_an_answer_that_says_false_is_a_refusal_with_its_reason(body: bytes, why: str) -> None:
    assert read_registration_answer(body, was_called=False, ways=3) == RequestRefused(why, 3)


@pytest.mark.parametrize("body", [b"", b"OK", b"<html><body>Welcome</body></html>", b"[1]", b"{", b'{"a": 1}', b"{}"])
def test_an_answer_that_says_neither_is_no_success(body: bytes) -> None:
    assert isinstance(read_registration_answer(body, was_called=False), RequestMissed)


def test_a_bomb_is_not_read() -> None:
    bomb = b'<!DOCTYPE a [<!ENTITY b "ccc"><!ENTITY d "&b;&b;&b;">]><notifyResult success="&d;"/>'
    assert isinstance(read_registration_answer(bomb, was_called=False), RequestMissed)
    assert isinstance(read_registration_answer(bomb.decode().encode("utf-16"), was_called=False), RequestMissed)


def test_what_is_nested_without_end_is_no_success() -> None:
    for opening in (b'{"a":', b"<a>"):
        deep = opening * (rsscloud.MAX_XMLRPC_BYTES // len(opening))
        assert isinstance(read_registration_answer(deep, was_called=False), RequestMissed)
        assert isinstance(read_registration_answer(deep, was_called=True), RequestMissed)


def test_a_call_that_returns_true_succeeded_and_one_that_returns_false_or_a_fault_was_refused() -> None:
    for returned in (True, 1):
        said_yes = xmlrpc.client.dumps((returned,), methodresponse=True).encode()
        assert read_registration_answer(said_yes, was_called=True) == LeaseGranted(CLOUD_LEASE)
    said_no = xmlrpc.client.dumps((False,), methodresponse=True).encode()
    fault = xmlrpc.client.dumps(xmlrpc.client.Fault(4, "No such feed.")).encode()
    assert read_registration_answer(said_no, was_called=True) == RequestRefused("it gives no reason.")
    assert read_registration_answer(fault, was_called=True) == RequestRefused("No such feed.")
    assert isinstance(read_registration_answer(b"<methodCall/>", was_called=True), RequestMissed)


def test_the_url_of_a_ping_is_its_first_parameter() -> None:
    assert rsscloud.read_first_text(xmlrpc.client.dumps((FEED, 1), "rssCloud.notify").encode()) == FEED
    bare = b"<methodCall><params><param><value>http://a.example/</value></param></params></methodCall>"
    assert rsscloud.read_first_text(bare) == "http://a.example/"
    assert rsscloud.read_first_text(xmlrpc.client.dumps((), "rssCloud.notify").encode()) is None


def test_too_much_is_not_parsed() -> None:
    with pytest.raises(ValueError, match="more than"):
        rsscloud.parse_tree(b"<a>" + b" " * rsscloud.MAX_XMLRPC_BYTES + b"</a>")
