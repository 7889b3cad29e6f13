"""Sums of lines."""

import pytest

from resources.traffic import counter
from resources.traffic.asked import Asked
from resources.traffic.counter import FrontAnswer

NOW = 1_795_262_400.0
HALF_LIFE = 3600.0
PERIOD = int(NOW // 600)
HOT, MISSING = FrontAnswer("hot", wanted=True), FrontAnswer("missing", wanted=False)


def line(address: str = "/a/1", *, age: float = 0, status: int = 200) -> bytes:
    return f"{NOW - age:.3f} {status} HIT 100 0.000 GET {address}".encode()


def name(address: str) -> Asked | None:
    """Addresses are /<group>[/<key>]."""
    _, group, *key = address.split("/")
    return None if group == "nothing" else Asked("tile", group, f"tile:{key[0]}" if key else "")


def tally(*found: bytes) -> counter.TrafficTally:
    return counter.tally_lines(b"\n".join(found), NOW, HALF_LIFE, name)


def test_alike_requests_are_added_up() -> None:
    whole = tally(line("/a/1"), line("/a/2"), line("/b/1"), line("/a/1", status=404))
    assert whole.hits == {
        (("tile", "a"), HOT, PERIOD): 2,
        (("tile", "b"), HOT, PERIOD): 1,
        (("tile", "a"), MISSING, PERIOD): 1,
    }
    assert whole.weights == {"tile:1": 2, "tile:2": 1}
    assert whole.unreadable == 0


def test_the_parts_of_a_group_are_counted_under_a_kind_of_their_own() -> None:
    whole = counter.tally_lines(line(), NOW, HALF_LIFE, lambda _: Asked("tile", "a", "tile:1", part="9"))
    assert whole.hits == {(("tile", "a"), HOT, PERIOD): 1, (("tile/parts", "a/9"), HOT, PERIOD): 1}
    assert whole.weights == {"tile:1": 1}


def test_what_is_noted_names_the_reader_where_there_is_one() -> None:
    found = [line().replace(b"GET", b"GET 000001"), line().replace(b"GET", b"GET 000002"), line()]
    lines = b"\n".join([*found, *found])
    whole = counter.tally_lines(lines, NOW, HALF_LIFE, lambda _: Asked("feed", noted="sea"))
    assert whole.noted == {"feed": {"sea", "sea 000001", "sea 000002"}}


def test_requests_weigh_less_the_older_they_are() -> None:
    assert tally(line(), line(age=HALF_LIFE), line(age=2 * HALF_LIFE)).weights == {"tile:1": 1.75}


def test_a_request_of_the_future_counts_as_one_of_now() -> None:
    whole = tally(line(age=-1e6))
    assert whole.weights == {"tile:1": 1}
    assert list(whole.hits) == [(("tile", "a"), HOT, PERIOD)]


def test_a_request_of_long_ago_is_counted_in_no_period() -> None:
    assert list(tally(line(age=100_000)).hits) == [(("tile", "a"), HOT, -1)]


def test_every_line_is_counted_or_unreadable() -> None:
    whole = tally(line(), b"garbage", b"", line("/nothing/1"), line()[:20], line())
    assert sum(whole.hits.values()) == 3
    assert whole.unreadable == 3


@pytest.mark.parametrize(
    ("addresses", "group"),
    [(("/nothing/1", r"/a\xFF"), ("other", "")), (("/a",), ("tile", "a"))],
    ids=["named by no function", "without a key"],
)
def test_what_has_no_key_is_counted_and_not_popular(addresses: tuple[str, ...], group: tuple[str, str]) -> None:
    whole = tally(*map(line, addresses))
    assert (whole.hits, whole.weights) == ({(group, HOT, PERIOD): len(addresses)}, {})


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (Asked("tile", "a b\nc", "tile:1"), Asked("tile", "a_b_c", "tile:1")),
        (Asked("tile", "g" * 1000, "tile:1"), Asked("tile", "g" * 100, "tile:1")),
        (Asked("tile", "a", "k" * 501), Asked("tile", "a")),
        (Asked("two words", "a", "k"), counter.ASKED_OTHER),
        (Asked("", "a", "k"), counter.ASKED_OTHER),
    ],
)
def test_names_are_bounded_and_have_no_blanks(asked: Asked, expected: Asked) -> None:
    assert counter.read_asked(b"/", lambda _: asked) == expected
