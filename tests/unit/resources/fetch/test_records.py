"""The records of fetches."""

from hashlib import sha256

import pytest

from resources.fetch.http.messages import Body, BodyDropped, Failure, Fetched, FetchFailed, FetchRequest, NotModified
from resources.fetch.models import FetchTiming
from resources.fetch.timings import FetchRecord, digest_url
from tests.support.fetch_outcomes import NOON, TIMING, head, outcomes

URL = "https://A.example.com:8443/x?sig=secret"


def test_a_record_has_all_but_the_address() -> None:
    came = Fetched(head(203), Body(0, "", data=b""), TIMING)
    found = FetchRecord.of(FetchRequest(URL, kind="tile"), came, scope="example.com", lane="slow", egress="192.0.2.7")
    assert found == FetchRecord(
        started_at=NOON,
        url_digest=sha256(URL.encode()).hexdigest(),
        host="a.example.com:8443",
        scope="example.com",
        kind="tile",
        lane="slow",
        head_seconds=0.25,
        seconds=1.5,
        wire_bytes=4000,
        outcome="fetched",
        status=203,
        egress="192.0.2.7",
    )


@pytest.mark.parametrize(("came", "word", "status"), outcomes())
def test_every_outcome_has_its_word(came: NotModified | BodyDropped | FetchFailed, word: str, status: int) -> None:
    found = FetchRecord.of(FetchRequest(URL), came, scope="s", lane="fast")
    assert (found.outcome, found.status) == (word, status)


def test_the_admin_can_filter_by_every_outcome() -> None:
    assert {word for word, _ in FetchTiming.OUTCOMES} == {"fetched"} | {word for _, word, _ in outcomes()}


@pytest.mark.parametrize("url", ["https:///x", "http://[::1", "\ud800", "mailto:x@example.com"])
def test_an_address_that_cannot_be_fetched_is_noted_without_a_host(url: str) -> None:
    found = FetchRecord.of(FetchRequest(url), FetchFailed(Failure.PERMANENT, "no", TIMING), scope="", lane="fast")
    assert (found.host, found.status, found.url_digest) == ("", None, digest_url(url))


def test_texts_are_as_the_database_takes_them() -> None:
    found = FetchRecord.of(
        FetchRequest(URL), BodyDropped(head(), TIMING), scope="a\0" + "b" * 500, lane="fast", egress="\ud800" * 300
    )
    assert found.scope == "a?" + "b" * 398
    assert found.egress == "?" * 100
