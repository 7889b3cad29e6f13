"""Changes of a feed: entries are recognised, edits stored, and nothing comes twice."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feeds.diff import EntryMarks, FeedUpdate, compare_entries, entry_happened_at, mark_entries
from feeds.parser.documents import Chapter, Enclosure, ParsedEntry

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


def kept_after(*documents: list[Entry]) -> tuple[dict[str, EntryMarks], list[FeedUpdate]]:
    """The entries stored after those documents, and the changes of each."""
    kept: dict[str, EntryMarks] = {}
    updates = []
    for fetch, document in enumerate(documents):
        update = compare_entries(kept.values(), document, NOW + DAY * fetch)
        for new in update.new:
            assert new.marks.identity not in kept
            kept[new.marks.identity] = new.marks
        for changed in update.changed:
            del kept[changed.was]
        kept |= {changed.marks.identity: changed.marks for changed in update.changed}
        updates.append(update)
    return kept, updates


def counts(update: FeedUpdate) -> tuple[int, int, int, int]:
    """New, edited, renamed only, unchanged."""
    edited = sum(changed.is_edited for changed in update.changed)
    return len(update.new), edited, len(update.changed) - edited, update.unchanged


def second(before: list[Entry], after: list[Entry]) -> tuple[int, int, int, int]:
    """The changes of the second of two documents."""
    return counts(kept_after(before, after)[1][1])


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
    assert changed.was == changed.marks.identity == mark_entries([ENTRIES[0]])[0].identity


BARE = [Entry(content=f"note {number}") for number in range(3)]
MONDAY = Entry("1", "https://one.example/", "Monday's word", NOW - DAY, content="Patience")
TUESDAY = Entry("2", "https://one.example/", "Tuesday's word", NOW, content="Courage")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(ENTRIES, ENTRIES, (0, 0, 0, 5), id="the same once more"),
        pytest.param(ENTRIES, ENTRIES[::-1], (0, 0, 0, 5), id="another order"),
        pytest.param([entry(1, content="<p>a b")], [entry(1, content="<p>a\n  b ")], (0, 0, 0, 1), id="white space"),
        pytest.param(
            *([replace(each, published=NOW + DAY * fetch) for each in ENTRIES] for fetch in range(2)),
            (0, 0, 0, 5),
            id="dates that move with the fetch",
        ),
        pytest.param([MONDAY], [TUESDAY], (1, 0, 0, 0), id="a new entry with the link of all"),
        pytest.param(
            *([replace(each, published=None)] for each in (MONDAY, TUESDAY)), (1, 0, 0, 0), id="the same without dates"
        ),
        pytest.param(
            *([entry(n, title="Open thread", published=NOW) for n in pair] for pair in ((1, 2), (3, 4))),
            (2, 0, 0, 0),
            id="entries that look alike",
        ),
        pytest.param(
            *([replace(each, id="0") for each in many] for many in (ENTRIES, [*ENTRIES, entry(9)])),
            (1, 0, 0, 5),
            id="one id for all",
        ),
        pytest.param(BARE, [*BARE, Entry(content="note 4")], (1, 0, 0, 3), id="neither id nor link"),
    ],
)
def test_entries_are_told_apart_and_recognised(
    before: list[Entry], after: list[Entry], expected: tuple[int, int, int, int]
) -> None:
    assert second(before, after) == expected


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


def test_new_entries_stand_in_the_documents_order_each_once() -> None:
    assert [new.entry for new in compare_entries([], [*BARE, *ENTRIES, *BARE], NOW).new] == [*BARE, *ENTRIES]


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
    assert compare_entries(mark_entries(ENTRIES), found, NOW).is_same_feed(len(ENTRIES)) is expected


def test_a_feed_of_which_nothing_is_kept_can_be_any() -> None:
    assert compare_entries([], ENTRIES, NOW).is_same_feed(0)


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
    assert entry_happened_at(given, NOW, place=3) == expected


def test_fields_that_were_not_read_before_change_no_mark_where_an_entry_has_none_of_them() -> None:
    recording = Enclosure("https://a.example/1.mp3", "audio/mpeg")
    one = ParsedEntry(id="urn:1", title="Tide", content="<p>High</p>", enclosures=(recording,))
    (marks,) = mark_entries([one])
    assert marks.content == "4ac2a0ec917ce10a462840f2ef3d99d7", "as earlier versions stored it"
    assert mark_entries([replace(one, full="<p>An article</p>")]) == [marks]
    for more in ({"episode": 1}, {"chapters": (Chapter(0.0),)}, {"youtube": "aB3_dE6-hI9"}):
        assert mark_entries([replace(one, **more)])[0].content != marks.content


ANY = st.builds(
    Entry,
    id=st.sampled_from(["", "1", "2", "3"]),
    link=st.sampled_from(["", "a", "b"]),
    title=st.sampled_from(["", "t", "u"]),
    published=st.sampled_from([None, NOW, NOW - DAY]),
    content=st.sampled_from(["", "x", "y"]),
)


@settings(max_examples=50)
@given(st.lists(st.lists(ANY, max_size=6), min_size=1, max_size=4))
def test_whatever_comes_nothing_is_kept_twice_and_the_same_again_is_nothing_new(documents: list[list[Entry]]) -> None:
    kept, _ = kept_after(*documents)
    assert {key: each.identity for key, each in kept.items()} == {key: key for key in kept}
    again = compare_entries(kept.values(), documents[-1], NOW + 9 * DAY)
    assert not again.new
    assert not [changed for changed in again.changed if changed.was != changed.marks.identity]
