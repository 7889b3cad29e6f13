"""The hand-over of requests to the waiting instance and back, which no client can ask for."""

import time
from urllib.parse import quote

import pytest

from project.nginx_config import WaitingSite

from ..support.stack import eventually
from .conftest import Reply, RunningFront, Start
from .origin import HOT, Answer, Asked

TICKET = "redirect=/a%3Fb%26c&retry_after=1.5&sig=1.a-b_c"
CONTENT = Answer(headers={**HOT, "ETag": '"x"', "Accept-Ranges": "bytes", "Content-Type": "image/png"}, body=b"content")
RETURN = Answer(headers={"X-Accel-Redirect": "@returned"}, body=b"")
ADDRESSES = [
    *("/tiles/a/1/2/3.png", "/tiles/a/1/2/3.png?x=1", "/feeds/all.atom?q=x&q=y", "/feeds/%C3%BC/%E6%97%A5.atom"),
    *("/feeds/a%3Fb", "/feeds/a%25b", "/feeds/a%2525", "/feeds/a+b?q=+", "/feeds/a%2Bb?q=%2B%20%26", "/feeds/a%23b"),
    *("/feeds/a%20b?", "/feeds//a/./b/../c", "/feeds/a%2Fb", "/feeds/%0A", "/feeds/a;b=c", "/feeds/a%5Cb", "/?"),
    *("/feeds/" + "x" * 1900, "/feeds/" + "%C3%BC" * 300, "/feeds/..a", "/feeds/%22'<>|", "/feeds/a?b?c=/../d"),
]
OUTSIDE = [
    *("/retry_after/returned/tiles/a", "/retry_after/returned/", "//retry_after//returned/tiles/a"),
    *("/./retry_after/./returned/tiles/a", "/retry_after/x/../returned/tiles/a", "/retry_after/returned/%74iles/a"),
    *("/retry%5Fafter/returned/tiles/a", "/%72etry_after/%72eturned/tiles/a", "/retry_after%2Freturned%2Ftiles/a"),
    *("/retry_after/returned%2Ftiles/a", "/retry_after/returned/tiles/a?x=1"),
    "/retry_after/returned/%2e%2e/returned/a",
    *("http://localhost/retry_after/returned/tiles/a", "http://localhost//retry_after/returned/tiles/a?x"),
    *("/retry_after/returned/..%2Freturned/tiles/a", "/retry_after/returned/%00", "/retry_after/returned/\xfc"),
    "/retry_after/returned",
]
ELSEWHERE = [
    *("/RETRY_AFTER/returned/tiles/a", "/retry_after/Returned/tiles/a", "/retry_after/%2572eturned/a"),
    *("/@returned", "/@wait", "@returned", "@wait", "/%40returned", "/%40wait?x=1", "http://localhost/@wait"),
]


def hand_over(asked: Asked) -> Answer:
    """Main's answer for missing content when it delivers internally."""
    if asked.headers["x-front"] == "asked":
        return Answer(headers={"X-Accel-Redirect": "@wait", "X-Ticket": TICKET}, body=b"")
    return CONTENT


@pytest.fixture
def internal(site: RunningFront) -> RunningFront:
    site.main.answer = hand_over
    site.retry.answer = lambda _: RETURN
    return site


@pytest.fixture
def inline(site: RunningFront) -> RunningFront:
    """The waiting instance sends back to the address in the query."""
    site.main.answer = lambda _: CONTENT

    def send_back(asked: Asked) -> Answer:
        return Answer(headers={"X-Accel-Redirect": f"/retry_after/returned{asked.target.partition('?')[2]}"}, body=b"")

    site.retry.answer = send_back
    return site


def test_each_leg_is_marked_and_has_come_when_it_began(internal: RunningFront) -> None:
    def wait(_: Asked) -> Answer:
        time.sleep(0.2)
        return RETURN

    internal.retry.answer = wait
    internal.get("/tiles/a")
    asked, returned = (each.headers for each in internal.main.asked)
    [handed] = internal.retry.asked
    assert (asked["x-front"], returned["x-front"]) == ("asked", "returned")
    assert (handed.headers["x-front"], handed.target) == ("handed", f"/retry_after?{TICKET}")
    assert float(returned["x-front-since"]) - float(asked["x-front-since"]) > 0.1


def test_the_waiting_instance_may_deliver_by_itself_and_nothing_is_kept(internal: RunningFront) -> None:
    internal.retry.answer = lambda _: CONTENT
    answers = [internal.get("/tiles/a") for _ in range(2)]
    assert [asked.headers["x-front"] for asked in internal.retry.asked] == ["handed", "handed"]
    assert {(answer.status, answer.body, answer.headers["etag"]) for answer in answers} == {(200, b"content", '"x"')}


@pytest.mark.parametrize("target", ["/tiles/a", "/feeds/", "/admin/", "/metrics", "/healthz"])
def test_a_clients_own_mark_is_dropped(site: RunningFront, target: str) -> None:
    site.get(target, X_Front="returned", X_Ticket="x", X_Accel_Redirect="@wait")
    assert site.main.asked[0].headers["x-front"] == "asked"


def test_the_waiting_instance_is_told_what_comes_from_outside(site: RunningFront) -> None:
    site.get("/retry_after?x", X_Front="handed")
    site.get("/retry_after/status?x", X_Front="handed")
    assert [asked.headers["x-front"] for asked in site.retry.asked] == ["asked", "asked"]


@pytest.mark.parametrize(
    ("control", "is_cached", "mark"),
    [("public, s-maxage=1, stale-while-revalidate=30", True, "refresh"), ("public, s-maxage=1", False, "asked")],
    ids=["refreshed in the background", "past its time"],
)
def test_only_a_refresh_in_the_background_is_not_handed_over(
    site: RunningFront, control: str, is_cached: bool, mark: str
) -> None:
    site.main.answer = lambda _: Answer(headers={"Cache-Control": control})
    site.get("/tiles/a")
    time.sleep(2.1)  # nginx counts whole seconds
    assert site.get("/tiles/a").cached is is_cached
    eventually(lambda: len(site.main.asked) == 2, 5, "main is asked again")
    assert [asked.headers["x-front"] for asked in site.main.asked] == ["asked", mark]


def test_a_request_of_the_waiting_instance_is_not_handed_over(site: RunningFront) -> None:
    site.get_by_socket("/tiles/a")
    assert site.main.asked[0].headers["x-front"] == "refresh"


def test_a_main_that_always_hands_over_ends_in_an_error_not_in_a_circle(site: RunningFront) -> None:
    site.main.answer = lambda _: Answer(headers={"X-Accel-Redirect": "@wait", "X-Ticket": TICKET}, body=b"")
    site.retry.answer = lambda _: RETURN
    assert site.get("/tiles/a").status == 500
    assert len(site.main.asked) <= 10


@pytest.mark.parametrize("address", ADDRESSES)
def test_the_second_leg_asks_for_the_original_address_and_fills_its_entry(internal: RunningFront, address: str) -> None:
    first = internal.get(address)
    assert (first.status, first.body, first.cached) == (200, b"content", False)
    assert {asked.target for asked in internal.main.asked} == {internal.main.asked[0].target}
    again = internal.get(address)
    assert (again.body, again.cached) == (b"content", True)
    assert len(internal.main.asked) == 2


def test_the_answer_has_only_the_contents_own_fields(internal: RunningFront) -> None:
    answer = internal.get("/tiles/a")
    assert answer.headers.get_all("Cache-Control") == [HOT["Cache-Control"]]
    assert answer.headers.get_all("Content-Type") == ["image/png"]
    assert not {"X-Accel-Redirect", "X-Ticket"} & {*answer.headers}


@pytest.mark.parametrize("address", ADDRESSES)
def test_inline_delivery_asks_for_what_main_saw(inline: RunningFront, address: str) -> None:
    inline.get(address)
    seen = inline.main.asked[0].target
    answer = inline.get(f"/retry_after?{seen}")
    assert (answer.status, answer.body) == (200, b"content")
    assert {asked.target for asked in inline.main.asked} == {seen}
    assert len(inline.main.asked) == 1  # the hot cache had it, under its own address


def test_inline_delivery_fills_the_entry_of_the_original_address(inline: RunningFront) -> None:
    first = inline.get("/retry_after?/tiles/a")
    assert inline.main.asked[0].headers["x-front"] == "returned"
    assert first.headers.get_all("Cache-Control") == ["no-store"]
    assert "Expires" not in first.headers
    again = inline.get("/tiles/a")
    assert again.cached
    assert again.headers["Cache-Control"] == HOT["Cache-Control"]


@pytest.mark.parametrize(("delivery", "address"), [("internal", "/tiles/a"), ("inline", "/retry_after?/tiles/a")])
def test_methods_and_conditions_come_through(request: pytest.FixtureRequest, delivery: str, address: str) -> None:
    site: RunningFront = request.getfixturevalue(delivery)
    for _ in range(2):  # the second time from the cache
        assert _shown(site.get(address, method="HEAD")) == (200, b"")
        eventually(lambda: site.get("/tiles/a").cached, 5, "it is kept")
        assert _shown(site.get(address, Range="bytes=1-3")) == (206, b"ont")
        assert _shown(site.get(address, If_None_Match='"x"')) == (304, b"")
        assert _shown(site.get(address, If_None_Match='"y"')) == (200, b"content")


@pytest.mark.parametrize("target", OUTSIDE)
def test_the_way_back_cannot_be_taken_from_outside(site: RunningFront, target: str) -> None:
    assert site.get(target).status in {400, 404}
    assert site.main.asked == []
    assert site.retry.asked == []


@pytest.mark.parametrize("target", ELSEWHERE)
def test_what_looks_like_it_is_any_other_address(site: RunningFront, target: str) -> None:
    answer = site.get(target)
    assert site.retry.asked == []
    assert [asked.headers["x-front"] for asked in site.main.asked] in ([], ["asked"])
    assert answer.status in {200, 400}


def test_waiting_has_a_host_of_its_own(start: Start) -> None:
    site = start(elsewhere=WaitingSite("wait.example"))
    assert site.get("/retry_after?x", "wait.example").status == 200
    for target in ("/tiles/a", "/retry_after/returned/tiles/a"):
        assert site.get(target, "wait.example").status == 404
    assert site.main.asked == []
    assert site.get("/tiles/a").status == 200


def test_long_tickets_are_handed_over(internal: RunningFront) -> None:
    ticket = f"redirect={quote('/' + 'ü' * 600)}&sig=x"
    internal.main.answer = lambda asked: (
        Answer(headers={"X-Accel-Redirect": "@wait", "X-Ticket": ticket}, body=b"")
        if asked.headers["x-front"] == "asked"
        else CONTENT
    )
    assert internal.get("/tiles/a").status == 200
    assert internal.retry.asked[0].target == f"/retry_after?{ticket}"


def _shown(reply: Reply) -> tuple[int, bytes]:
    return reply.status, reply.body
