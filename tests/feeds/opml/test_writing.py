"""What is written is read again as it was."""

from datetime import UTC, datetime
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feeds.addresses import Address
from feeds.opml.outlines import Subscription
from feeds.opml.reading import parse
from feeds.opml.writing import write

CREATED = datetime(2026, 11, 4, 12, tzinfo=UTC)
ONE = Subscription(Address("https://one.example/feed?a=1&b=2"), "One & <all>", "https://one.example/")
PRIVATE = Subscription(Address("https://two.example/", "me", "p:w@"))

TEXTS = st.text("aZé漢🙂 \u00a0\u2028&<>\"'/,;#%=", max_size=12).map(lambda text: " ".join(text.split()))
NAMES = TEXTS.filter(bool)
SUBSCRIPTIONS = st.lists(
    st.builds(
        Subscription,
        address=st.integers(0, 99).map(lambda number: Address(f"https://{number}.example/feed?x={number}&y")),
        title=TEXTS,
        site=TEXTS,
        description=TEXTS,
        language=TEXTS,
        categories=st.lists(st.lists(NAMES, min_size=1, max_size=3).map(tuple), unique=True, max_size=3).map(tuple),
    ),
    unique_by=lambda each: each.address,
    max_size=8,
)


def sorted_out(subscriptions: tuple[Subscription, ...] | list[Subscription]) -> dict[str, tuple[object, ...]]:
    """By address: categories give a list its order."""
    return {
        each.address.url: (each.title, each.site, each.description, each.language, sorted(each.categories))
        for each in subscriptions
    }


@settings(max_examples=50)
@given(SUBSCRIPTIONS, TEXTS)
def test_a_list_comes_back_as_it_was(subscriptions: list[Subscription], title: str) -> None:
    found = parse(write(subscriptions, title, CREATED))
    assert found.title == title
    assert not found.left_out
    assert sorted_out(found.subscriptions) == sorted_out(subscriptions)


def test_a_list_is_as_the_specification_has_it() -> None:
    root = ET.fromstring(write([ONE], "Feeds", CREATED))
    assert (root.tag, root.get("version")) == ("opml", "2.0")
    assert root.findtext("head/dateCreated") == "Wed, 04 Nov 2026 12:00:00 GMT"
    [outline] = root.findall("body/outline")
    assert outline.get("type") == "rss"
    assert outline.get("text") == outline.get("title") == "One & <all>"
    assert outline.get("xmlUrl") == "https://one.example/feed?a=1&b=2"


def test_categories_that_share_one_around_them_stand_in_it_once() -> None:
    feeds = [
        Subscription(Address(f"https://{name}.example/"), categories=(("News", name),)) for name in ("Here", "There")
    ]
    root = ET.fromstring(write(feeds, "", CREATED))
    [news] = root.findall("body/outline")
    assert [folder.get("text") for folder in news] == ["Here", "There"]


def test_characters_that_xml_has_not_are_left_out() -> None:
    [found] = parse(write([Subscription(ONE.address, "a\x00b\ud800c")], "\x07", CREATED)).subscriptions
    assert found.title == "abc"


@pytest.mark.parametrize(("with_passwords", "user", "password"), [(False, "", ""), (True, "me", "p:w@")])
def test_passwords_are_written_only_when_asked_for(with_passwords: bool, user: str, password: str) -> None:
    [found] = parse(write([PRIVATE], "", CREATED, with_passwords=with_passwords)).subscriptions
    assert found.address == Address("https://two.example/", user, password)
