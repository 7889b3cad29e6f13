"""What has changed in a feed: entries are recognised, edits kept, and nothing comes twice."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feeds.updating import Marks, Update, compare, happened_at, marks

NOW = datetime(2026, 11, 4, 12, tzinfo=UTC)
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Entry:
    id: str = ""
    link: str = ""
    title: str = ""
    published: datetime | None = None
    updated: datetime | None = None
    summary: str = ""
    content: str = ""
    enclosures: tuple[str, ...] = ()


def entry(number: int, **given: object) -> Entry:
    """A decent one, with an id, a link and a date."""
    decent = Entry(
        f"urn:{number}", f"https://one.example/{number}", f"Title {number}", NOW - DAY * number, content=f"<p>{number}"
    )
    return replace(decent, **given)  # type: ignore[arg-type]


ENTRIES = [entry(number) for number in range(1, 6)]


def kept_after(*documents: list[Entry]) -> tuple[dict[str, Marks], list[Update]]:
    """What is kept after those documents, and what each has changed."""
    kept: dict[str, Marks] = {}
    updates = []
    for fetch, document in enumerate(documents):
        update = compare(kept.values(), document, NOW + DAY * fetch)
        for new in update.new:
            assert new.marks.identity not in kept
            kept[new.marks.identity] = new.marks
        for changed in update.changed:
            del kept[changed.was]
        kept |= {changed.marks.identity: changed.marks for changed in update.changed}
        updates.append(update)
    return kept, updates


def counts(update: Update) -> tuple[int, int, int, int]:
    """New, edited, renamed only, unchanged."""
    edited = sum(changed.is_edited for changed in update.changed)
    return len(update.new), edited, len(update.changed) - edited, update.unchanged


def second(before: list[Entry], after: list[Entry]) -> tuple[int, int, int, int]:
    """What the second of two documents changes."""
    return counts(kept_after(before, after)[1][1])


def test_what_is_fetched_first_is_new() -> None:
    assert counts(kept_after(ENTRIES)[1][0]) == (5, 0, 0, 0)


def test_the_same_once_more_changes_nothing() -> None:
    assert second(ENTRIES, ENTRIES) == (0, 0, 0, 5)


def test_another_order_changes_nothing() -> None:
    assert second(ENTRIES, ENTRIES[::-1]) == (0, 0, 0, 5)


def test_what_leaves_the_document_is_kept() -> None:
    kept, _ = kept_after(ENTRIES, ENTRIES[2:], [entry(9)])
    assert len(kept) == 6


@pytest.mark.parametrize(
    "edit",
    [
        {"title": "Corrected"},
        {"content": "<p>more"},
        {"summary": "in short"},
        {"link": "https://one.example/elsewhere"},
        {"enclosures": ("https://one.example/1.mp3",)},
        {"updated": NOW - timedelta(hours=3)},
        {"published": NOW - 30 * DAY},
        {"published": None},
    ],
    ids=str,
)
def test_an_edit_is_kept_under_the_same_identity(edit: dict[str, object]) -> None:
    after = [replace(ENTRIES[0], **edit), *ENTRIES[1:]]  # type: ignore[arg-type]
    assert second(ENTRIES, after) == (0, 1, 0, 4)


def test_an_edit_is_told_with_what_it_was() -> None:
    edited = entry(1, title="Corrected")
    [changed] = kept_after(ENTRIES, [edited])[1][1].changed
    assert changed.entry is edited
    assert changed.was == changed.marks.identity == marks([ENTRIES[0]])[0].identity


def test_white_space_is_no_edit() -> None:
    assert second([entry(1, content="<p>a b")], [entry(1, content="<p>a\n  b ")]) == (0, 0, 0, 1)


def test_a_date_that_moves_with_the_fetch_is_no_edit() -> None:
    fetched = [[replace(each, published=NOW + DAY * fetch) for each in ENTRIES] for fetch in range(2)]
    assert second(*fetched) == (0, 0, 0, 5)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(lambda e: e, lambda e: replace(e, id=e.id + "/v2"), id="other ids"),
        pytest.param(lambda e: e, lambda e: replace(e, id=""), id="no ids any more"),
        pytest.param(lambda e: replace(e, id=""), lambda e: e, id="ids at last"),
        pytest.param(
            lambda e: replace(e, id=e.link),
            lambda e: replace(e, id=e.link.replace("https", "http"), link=e.link.replace("https", "http")),
            id="another scheme",
        ),
        pytest.param(
            lambda e: e, lambda e: replace(e, id=e.id + "x", link=e.link + "x", content=e.content + "x"), id="moved"
        ),
        pytest.param(
            lambda e: replace(e, published=None), lambda e: replace(e, id="x" + e.id, published=None), id="no dates"
        ),
    ],
)
def test_publishers_that_change_ids_do_not_flood(before, after) -> None:  # type: ignore[no-untyped-def]
    old, new = [before(each) for each in ENTRIES], [after(each) for each in ENTRIES]
    kept, updates = kept_after(old, new, new)
    assert len(updates[1].new) == 0
    assert len(updates[1].changed) == 5
    assert counts(updates[2]) == (0, 0, 0, 5)
    assert len(kept) == 5


def test_ids_at_random_in_each_fetch_do_not_flood() -> None:
    documents = [[replace(each, id=f"{fetch}:{each.id}") for each in ENTRIES] for fetch in range(5)]
    assert [len(update.new) for update in kept_after(*documents)[1]] == [5, 0, 0, 0, 0]


def test_a_new_entry_with_the_link_of_all_is_new() -> None:
    home = "https://one.example/"
    monday = Entry("1", home, "Monday's word", NOW - DAY, content="Patience")
    tuesday = Entry("2", home, "Tuesday's word", NOW, content="Courage")
    assert second([monday], [tuesday]) == (1, 0, 0, 0)
    assert second([replace(monday, published=None)], [replace(tuesday, published=None)]) == (1, 0, 0, 0)


def test_entries_that_look_alike_are_not_mistaken_for_each_other() -> None:
    alike = [entry(number, title="Open thread", published=NOW) for number in (1, 2)]
    more = [entry(number, title="Open thread", published=NOW) for number in (3, 4)]
    assert second(alike, more) == (2, 0, 0, 0)


def test_one_id_for_all_is_none() -> None:
    shared = [replace(each, id="0") for each in ENTRIES]
    assert second(shared, [*shared, entry(9, id="0")]) == (1, 0, 0, 5)


def test_entries_without_id_and_link_are_told_apart_by_what_they_say() -> None:
    bare = [Entry(content=f"note {number}") for number in range(3)]
    assert second(bare, [*bare, Entry(content="note 4")]) == (1, 0, 0, 3)


def test_new_entries_stand_in_the_documents_order_each_once() -> None:
    bare = [Entry(content=f"note {number}") for number in range(3)]
    update = compare([], [*bare, *ENTRIES, *bare], NOW)
    assert [new.entry for new in update.new] == [*bare, *ENTRIES]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (ENTRIES, True),
        ([*ENTRIES[:2], *[entry(number) for number in range(10, 14)]], True),
        (ENTRIES[:1], True),
        ([replace(each, id=f"new:{each.id}") for each in ENTRIES], True),
        ([entry(number) for number in range(10, 20)], False),
        ([], False),
    ],
)
def test_the_same_feed_has_some_of_its_entries(found: list[Entry], expected: bool) -> None:
    assert compare(marks(ENTRIES), found, NOW).is_same_feed(len(ENTRIES)) is expected


def test_a_feed_of_which_nothing_is_kept_can_be_any() -> None:
    assert compare([], ENTRIES, NOW).is_same_feed(0)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (entry(1), NOW - DAY),
        (entry(1, published=None, updated=NOW - 2 * DAY), NOW - 2 * DAY),
        (entry(1, published=NOW + DAY), NOW),
        (entry(1, published=None), NOW - timedelta(milliseconds=3)),
    ],
)
def test_an_entry_came_when_it_says_but_not_after_it_was_seen(given: Entry, expected: datetime) -> None:
    assert happened_at(given, NOW, place=3) == expected


ANY = st.builds(
    Entry,
    id=st.sampled_from(["", "1", "2", "3"]),
    link=st.sampled_from(["", "a", "b"]),
    title=st.sampled_from(["", "t", "u"]),
    published=st.sampled_from([None, NOW, NOW - DAY]),
    content=st.sampled_from(["", "x", "y"]),
)


@given(st.lists(st.lists(ANY, max_size=6), min_size=1, max_size=4))
def test_whatever_comes_nothing_is_kept_twice_and_the_same_again_is_nothing_new(documents: list[list[Entry]]) -> None:
    kept, _ = kept_after(*documents)
    assert {key: each.identity for key, each in kept.items()} == {key: key for key in kept}
    again = compare(kept.values(), documents[-1], NOW + 9 * DAY)
    assert not again.new
    assert not [changed for changed in again.changed if changed.was != changed.marks.identity]
