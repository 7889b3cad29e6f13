"""Stories: which entries of different feeds are one, and what combinations of feeds show of them."""

from datetime import timedelta
from typing import Any

import pytest

from feeds import stories
from feeds.changes import numbers
from feeds.models import ALL_SLUG, Category, Entry, StoryMark
from tests.support.feed_rows import NOW, category, feed, publish

pytestmark = pytest.mark.django_db

Item = dict[str, Any]
WORDS = [f"word{number}" for number in range(300)]


def text(first: int = 0, words: int = 60, changed: int = 0) -> str:
    """A text of so many words, the last of which are others."""
    return " ".join([*WORDS[first : first + words - changed], *(f"other{number}" for number in range(changed))])


def item(name: str = "one", **fields: object) -> Item:
    return {"id": name, "title": "Tides", "content_html": f"<p>About {name}</p>", **fields}


def number(minutes: int = 0) -> None:
    """Does what happens after a commit."""
    numbers.number_changes(NOW + timedelta(minutes=minutes))


def come(*items: Item) -> list[Entry]:
    """Each in a feed of its own, one after the other."""
    found = []
    for place, one in enumerate(items):
        row = feed(f"feed-{place}")
        publish(row, one)
        number(place)
        found.append(Entry.objects.get(feed=row))
    return found


LINK = "https://news.example.org/2026/tides"


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        pytest.param(item("https://a.example.org/?p=1"), item("https://a.example.org/?p=1"), True, id="a web address"),
        pytest.param(item("tag:a.example.org,2026:1"), item("tag:a.example.org,2026:1"), True, id="a tag"),
        pytest.param(item("17"), item("17"), False, id="a number"),
        pytest.param(item("post:17"), item("post:17"), False, id="an id of a program"),
        pytest.param(item("http://127.0.0.1/17"), item("http://127.0.0.1/17"), False, id="an address of one machine"),
        pytest.param(item("a", url=f"{LINK}?utm_source=a"), item("b", url=f"{LINK}/#top"), True, id="a link"),
        pytest.param(item("a", url=f"{LINK}?page=1"), item("b", url=f"{LINK}?page=2"), False, id="another link"),
        pytest.param(item("a", url="https://a.org/"), item("b", url="https://a.org"), False, id="a whole site"),
        pytest.param(
            item("a", url="https://a.example.org/1", content_html=text()),
            item("b", url="https://b.example.org/2", content_html=text(changed=3)),
            True,
            id="nearly the same text",
        ),
        pytest.param(
            item("a", url="https://a.example.org/1", content_html=text()),
            item("b", url="https://b.example.org/2", content_html=text(changed=30)),
            False,
            id="half of the text",
        ),
        pytest.param(
            item("a", url="https://a.example.org/1", content_html=text()),
            item("b", url="https://a.example.org/2", content_html=text()),
            False,
            id="the same text on one host",
        ),
        pytest.param(
            item("a", url="https://a.example.org/1", content_html=text(words=30)),
            item("b", url="https://b.example.org/2", content_html=text(words=30)),
            False,
            id="the same short text",
        ),
        pytest.param(
            item("a", content_html=text(), authors=[{"name": "Ann"}], tags=["sea"]),
            item("b", content_html=text(), authors=[{"name": "Ben"}], tags=["moon", "tide"]),
            True,
            id="the same text under other names",
        ),
    ],
)
def test_entries_of_two_feeds_are_one_story_by_id_link_or_text(one: Item, other: Item, is_same: bool) -> None:
    first, second = come(one, other)
    assert first.story is None
    assert second.story == (first.pk if is_same else None)


def test_a_story_goes_on_by_any_way_and_keeps_its_number_without_its_first_entry() -> None:
    first, *_, last = come(
        item("https://a.example.org/?p=1", url="https://a.example.org/1", content_html=text()),
        item("https://a.example.org/?p=1", url="https://b.example.org/2", content_html="Short"),
        item("c", url="https://b.example.org/2", content_html="Other"),
    )
    assert last.story == first.pk
    numbers.delete_entries(Entry.objects.filter(pk=first.pk), "pruned")
    publish(late := feed("late"), item("d", url="https://b.example.org/2", content_html="Late"))
    number(9)
    assert Entry.objects.get(feed=late).story == first.pk


def test_one_feed_has_one_entry_of_a_story() -> None:
    one, other = feed("one"), feed("other")
    publish(one, item("a", url=LINK, content_html=text()))
    number()
    publish(other, item("b", url=LINK), item("c", content_html=text(changed=1)))
    number(1)
    assert [row.story is None for row in Entry.objects.filter(feed=other).order_by("pk")] == [False, True]


def test_a_link_that_a_feed_has_twice_identifies_nothing() -> None:
    show = "https://show.example.org/episodes"
    one, other, later = feed("one"), feed("other"), feed("later")
    publish(one, item("a", url=show))
    number()
    publish(later, item("1", url=show))
    publish(later, item("2", url=show))  # a document of one entry, which then is another
    publish(other, item("b", url=show), item("c", url=show))
    number(1)
    assert not Entry.objects.filter(story__isnull=False).exists()


NOTICE = (
    "This is a free preview of a paid issue. To read on, visit our site. This post is for paid subscribers only. "
    "Become a paying subscriber to get access to it and to all that subscribers alone can read. A subscription gets "
    "you the archive, every new issue on the day it comes out, the podcast in your own app, and the comments of all "
    "other readers here."
)


def test_notices_under_different_titles_are_different_stories() -> None:
    first, second = come(
        item("a", title="Why the river floods each spring", content_html=NOTICE),
        item("b", title="A visit to the last keeper of a lighthouse", content_html=NOTICE),
    )
    assert (first.story, second.story) == (None, None)


def test_a_text_that_a_feed_has_twice_identifies_nothing() -> None:
    one, other, third = feed("one"), feed("other"), feed("third")
    publish(one, item("a1", content_html=text(changed=1)), item("a2", content_html=text(changed=2)))
    number()
    publish(other, item("b", content_html=text()))
    number(1)
    publish(third, item("c1", content_html=text()), item("c2", content_html=text(changed=3)))
    number(2)
    assert not Entry.objects.filter(story__isnull=False).exists()


def test_an_edited_entry_is_looked_at_again_unless_it_is_in_a_story() -> None:
    one, other, third = feed("one"), feed("other"), feed("third")
    publish(one, item("a", content_html=text()))
    publish(other, item("b", content_html="A draft"))
    publish(third, item("c", content_html=text(100)))
    number()
    publish(other, item("b", content_html=text()))
    number(1)
    first, edited = Entry.objects.get(feed=one), Entry.objects.get(feed=other)
    assert edited.story == first.pk
    publish(other, item("b", content_html=text(100)))
    publish(one, item("a", content_html=text(100)))
    number(2)
    assert dict(Entry.objects.values_list("feed__slug", "story")) == {"one": None, "other": first.pk, "third": None}


def test_hidden_feeds_take_no_part() -> None:
    hidden, one, other = feed("hidden", is_hidden=True), feed("one"), feed("other")
    for row in (hidden, one, other):
        publish(row, item(content_html=text()))
        number()
    first = Entry.objects.get(feed=one)
    assert dict(Entry.objects.values_list("feed__slug", "story")) == {"hidden": None, "one": None, "other": first.pk}


def test_what_very_many_entries_share_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stories, "MAX_SHARERS", 3)
    found = come(*(item(str(place), content_html=text()) for place in range(5)))
    assert [row.story for row in found] == [None, found[0].pk, found[0].pk, None, None]


def test_entries_of_before_an_upgrade_are_left_alone_but_found_by_their_ids() -> None:
    name = "https://a.example.org/?p=1"
    one, other = feed("one"), feed("other")
    publish(one, item(name, content_html=text()))
    publish(other, item("b", content_html=text()))
    StoryMark.objects.all().delete()
    number()
    publish(feed("third"), item(name))
    number(1)
    first = Entry.objects.get(feed=one)
    assert dict(Entry.objects.values_list("feed__slug", "story")) == {"one": None, "other": None, "third": first.pk}


def test_marks_are_kept_for_some_time() -> None:
    old, recent = feed("old"), feed("recent")
    gone = publish(old, item("gone", content_html=text(100)), at=NOW - timedelta(days=40))
    publish(old, item("gone", content_html=text(100)), item("old", content_html=text()), at=NOW - timedelta(days=31))
    publish(recent, item("recent", content_html=text(200)), at=NOW - timedelta(days=29))
    Entry.objects.filter(pk=gone[0].pk).delete()
    assert stories.prune_marks(NOW - stories.STORY_TIME, 5) > 0
    assert set(StoryMark.objects.values_list("entry__feed__slug", flat=True)) == {"recent"}


def test_combinations_are_rendered_anew_once_an_entry_is_found_to_repeat_another() -> None:
    one, other = feed("one"), feed("other")
    wet, dry = category("wet", one, other), category("dry", one)
    everything = Category.objects.get(slug=ALL_SLUG)
    publish(one, item(content_html=text()))
    number()

    def versions() -> list[int]:
        return [Category.objects.get(pk=row.pk).version for row in (wet, dry, everything)]

    before = versions()
    publish(other, item("b", content_html=text()))
    number(1)
    assert [now > was for now, was in zip(versions(), before, strict=True)] == [True, False, True]
    before = versions()
    publish(other, item("c", content_html=text(100)), item("b", content_html=text()))
    number(2)
    assert versions() == before
