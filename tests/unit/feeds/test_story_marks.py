"""Marks of stories: what is the same in two links, which ids are unique, which texts are alike."""

import random
from collections.abc import Sequence

import pytest

from feeds import story_marks

RNG = random.Random(20)
WORDS = [f"word{number}" for number in range(2000)]


@pytest.mark.parametrize(
    ("link", "simple"),
    [
        ("https://example.org/a", "example.org/a"),
        ("http://www.Example.ORG:80/a/#part", "example.org/a"),
        ("https://example.org:8443/a", "example.org:8443/a"),
        ("https://example.org./a", "example.org/a"),
        ("https://example.org/A?b=1&a=2", "example.org/A?b=1&a=2"),
        ("https://example.org/a?utm_source=feed&id=7&fbclid=x&mc_cid=y", "example.org/a?id=7"),
        ("https://example.org/a/?utm_medium=rss", "example.org/a"),
        ("https://example.org/?p=7", "example.org?p=7"),
        ("https://example.org", ""),
        ("https://example.org/?utm_source=feed#top", ""),
        ("https://xn--mnchen-3ya.example/%C3%A4", "xn--mnchen-3ya.example/%C3%A4"),
        ("http://localhost/a", ""),
        ("http://10.0.0.1/a", ""),
        ("http://[::1]/a", ""),
        ("http://[broken/a", ""),
        ("https://example.org:port/a", ""),
        ("ftp://example.org/a", ""),
        ("/a", ""),
        ("", ""),
    ],
)
def test_links_are_simplified_to_what_names_the_page(link: str, simple: str) -> None:
    assert story_marks.simplify_link(link) == simple
    assert len(list(story_marks.mark_link(link))) == bool(simple)


@pytest.mark.parametrize(
    ("written", "is_unique"),
    [
        ("https://example.org/?p=7", True),
        ("http://example.org/#7", True),
        ("tag:example.org,2026-11-01:7", True),
        ("tag:ann@example.org,2026:7", True),
        ("URN:UUID:1225C695-CFB8-4EBB-AAAA-80DA344EFA6A", True),
        ("urn:uuid:00000000-0000-0000-0000-000000000000", False),
        ("urn:post:7", False),
        ("tag:blog,2026:7", False),
        ("post:7", False),
        ("https://example.org/", False),
        ("https://example.org/a b", False),
        ("http://localhost/7", False),
        ("http://192.168.0.1/7", False),
        ("7", False),
        ("", False),
    ],
)
def test_ids_that_another_publisher_may_give_say_nothing(written: str, is_unique: bool) -> None:
    assert len(list(story_marks.mark_id(written))) == is_unique


def changed(words: Sequence[str], number: int) -> list[str]:
    """The words, with so many of them replaced somewhere."""
    places = set(RNG.sample(range(len(words)), number))
    return [f"new{place}" if place in places else word for place, word in enumerate(words)]


def share_of_found(words: int, replaced: int) -> float:
    """The share of pairs of texts that have a mark in common."""
    found = 0
    for _ in range(200):
        one = RNG.choices(WORDS, k=words)
        marks = [set(story_marks.mark_text([" ".join(text)])) for text in (one, changed(one, replaced))]
        found += bool(marks[0] & marks[1])
    return found / 200


def test_texts_share_a_mark_by_how_alike_they_are() -> None:
    assert share_of_found(600, 6) > 0.95  # 3 % of shingles
    assert share_of_found(600, 100) < 0.2  # 42 %


@pytest.mark.parametrize(("replaced", "is_same"), [(0, True), (20, True), (60, False)])
def test_texts_are_alike_with_four_fifths_of_their_shingles_in_common(replaced: int, is_same: bool) -> None:
    one = WORDS[:600]
    other = changed(one, replaced)
    texts = [story_text(words, title) for words, title in ((one, "Tides"), (other, "Floods"))]
    assert story_marks.are_alike(*texts) is is_same
    assert story_marks.are_alike(*reversed(texts)) is is_same


@pytest.mark.parametrize(
    ("words", "title", "is_same"), [(100, "tides", True), (100, "floods", False), (250, "x", True)]
)
def test_short_texts_are_alike_under_one_title(words: int, title: str, is_same: bool) -> None:
    assert story_marks.are_alike(story_text(WORDS[:words], "tides"), story_text(WORDS[:words], title)) is is_same


def story_text(words: list[str], title: str) -> story_marks.StoryText:
    return story_marks.StoryText(title, frozenset(story_marks.split_shingles([" ".join(words)])))


def test_marks_fit_into_every_database_and_tell_their_way() -> None:
    marks = [
        *story_marks.mark_id("https://example.org/7"),
        *story_marks.mark_link("https://example.org/7"),
        *story_marks.mark_text([" ".join(WORDS[:100]), "Ann", "sea side"]),
    ]
    assert [story_marks.way_of(mark) for mark in marks] == [0, 1, *[2] * 8]
    assert all(0 <= mark < 2**63 for mark in marks)
    assert set(marks[2:]) == set(story_marks.mark_text([" ".join(WORDS[:100])]))
