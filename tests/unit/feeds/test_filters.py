"""Filters of feeds: which entries they hide, and that these are nowhere from then on."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.db.models import F

from feeds import filters, lifecycle, readings
from feeds.change_rows import Removal
from feeds.changes import log, numbers
from feeds.changes.log import PageBounds
from feeds.changes.positions import ChangeCursor, ChangeScope
from feeds.errors import FilterError
from feeds.models import Category, Entry, EntryFilter, Feed
from feeds.pages import entry_filters, page_entries
from feeds.pages.query import PageQuery
from feeds.parser import documents
from feeds.parser.documents import Author, ParsedCategory
from tests.support.feed_rows import NOW, add, category, entry, feed

pytestmark = pytest.mark.django_db(transaction=True)

BOUNDS = PageBounds(100, 1_000_000)


def rule(**fields: str) -> EntryFilter:
    return EntryFilter(**{"action": "hide", **fields})


def tags(*names: str) -> dict[str, Any]:
    return {"categories": tuple(ParsedCategory(name) for name in names)}


@pytest.fixture
def sea() -> Feed:
    """Four entries: by Ann about whales, by Bo about "Deep sea", an advertisement, one in Japanese."""
    return feed(
        "sea",
        entry(1, title="Whales ahead", authors=(Author("Ann Lee"),), **tags("Whales")),
        entry(2, title="Below", authors=(Author("Bo"),), content="<p>Sea <b>cucumbers</b>.</p>", **tags("Deep sea")),
        entry(3, title="Buy now!", link="https://ads.example.org/x", summary="[Ad] 50% off", **tags("Ad", "Whales")),
        entry(4, title="海の話", content="<p>Tokyo</p>"),
    )


def give(to: Feed, *rules: EntryFilter) -> None:
    for each in rules:
        each.feed = to
        entry_filters.check_filter(each)
    filters.replace_filters(to.pk, rules)


def shown(subject: Feed | Category, words: str = "") -> list[int]:
    """The numbers of the entries on its page, by their place in the feed."""
    page = PageQuery.page_of_feed if isinstance(subject, Feed) else PageQuery.page_of_category
    asked = PageQuery.read(page(subject.slug).as_format("atom").path, {"q": [words]} if words else {})
    assert asked is not None
    found = page_entries.select_entries(asked, subject).entries
    return sorted((row.happened_at - NOW + timedelta(days=1)) // timedelta(minutes=1) for row in found)


@pytest.mark.parametrize(
    ("rules", "left"),
    [
        ([rule(words="whales")], [2, 4]),
        ([rule(words="tag:whales")], [2, 4]),
        ([rule(words='tag:"deep sea"')], [1, 3, 4]),
        ([rule(words="author:ann")], [2, 3, 4]),
        ([rule(words="cucum*")], [1, 3, 4]),
        ([rule(words="whales -ahead")], [1, 2, 4]),
        ([rule(words="-tag:whales")], [1, 3]),
        ([rule(words="海")], [1, 2, 3]),
        ([rule(words="whales buy")], [1, 2, 4]),
        ([rule(words="ahead"), rule(words="below")], [3, 4]),
        ([rule(action="only", words="tag:whales")], [1, 3]),
        ([rule(action="only", words="ahead"), rule(action="only", words="below")], [1, 2]),
        ([rule(action="only", words="tag:whales"), rule(words="tag:ad")], [1]),
        ([rule(pattern="^buy\\b")], [1, 2, 4]),
        ([rule(pattern="(?-i)^buy")], [1, 2, 3, 4]),
        ([rule(pattern="sea cucumbers\\.", field="text")], [1, 3, 4]),
        ([rule(pattern="\\[ad\\].*%", field="text")], [1, 2, 4]),
        ([rule(pattern="//ads\\.", field="link")], [1, 2, 4]),
        ([rule(pattern="^ad$", field="tag")], [1, 2, 4]),
        ([rule(pattern="^(ann|bo)\\b", field="author")], [3, 4]),
        ([rule(action="only", pattern="\\p{Han}")], [4]),
        ([rule(action="only", pattern="^Below$"), rule(action="only", words="tokyo")], [2, 4]),
    ],
    ids=lambda given: " & ".join(map(str, given)) if isinstance(given, list) else None,
)
def test_entries_are_hidden_by_words_tags_authors_and_patterns(
    sea: Feed, rules: Sequence[EntryFilter], left: list[int]
) -> None:
    give(sea, *(replace_row(each) for each in rules))
    assert shown(sea) == left


def replace_row(given: EntryFilter) -> EntryFilter:
    """A row of its own: those of parameters are shared."""
    return EntryFilter(action=given.action, words=given.words, pattern=given.pattern, field=given.field)


@pytest.mark.parametrize(
    ("given", "part", "message"),
    [
        (rule(), "words", "either words or a pattern"),
        (rule(words="a", pattern="b"), "words", "either words or a pattern"),
        (rule(words=" \0 "), "words", "either words or a pattern"),
        (rule(words="!?"), "words", "has no word to search for"),
        (rule(words='"open'), "words", 'quotation mark without its end: “"open”'),
        (rule(words="title:"), "words", "title: without a word"),
        (rule(words="feed:sea whale"), "words", "no feed: terms"),
        (rule(pattern="a(b"), "pattern", "missing ): a(b"),
        (rule(pattern="a**"), "pattern", "bad repetition operator: **"),
        (rule(pattern="(?<=a)b"), "pattern", "invalid perl operator: (?<="),
        (rule(pattern="(a)\\1"), "pattern", "invalid escape sequence: \\1"),
        (rule(pattern="((a{100}){100}){100}"), "pattern", "invalid repetition size: {100}"),
        (rule(pattern="(\\pL{500}\\pN{500})"), "pattern", "pattern too large"),
        (rule(pattern="(.{1,500})q$"), "pattern", "takes too long"),
        (rule(pattern="a" * 501), "pattern", "at most 500 characters"),
        (rule(pattern="a", field="body"), "field", "title, text, author, tag or link"),
    ],
)
def test_a_filter_that_cannot_be_is_refused_with_its_place(given: EntryFilter, part: str, message: str) -> None:
    with pytest.raises(FilterError) as caught:
        entry_filters.check_filter(replace_row(given))
    assert (caught.value.part, message in str(caught.value)) == (part, True), str(caught.value)


def all_feeds() -> Category:
    return Category.objects.get(slug="all")


def test_a_hidden_entry_is_on_no_page_and_in_no_search(sea: Feed) -> None:
    """Also in searches that order all matches, for which one more hidden entry is at each end."""
    planet = category("planet", sea)
    give(sea, rule(words="tag:whales"))
    for subject in (sea, planet, all_feeds()):
        assert shown(subject) == [2, 4], subject
        assert (shown(subject, "whales"), shown(subject, "sea")) == ([], [2]), subject
        assert shown(subject, "-tokyo") == [2], subject
    ranked = PageQuery.read_address("/feeds/sea.atom?order=rank&q=below")
    assert [row.title for row in page_entries.select_entries(ranked, sea).entries] == ["Below"]
    assert not page_entries.select_entries(replace(ranked, words="ahead"), sea).entries


def test_a_page_of_a_search_is_full_however_many_matches_are_hidden(sea: Feed) -> None:
    for number in range(5, 60):
        add(sea, entry(number, title=f"Rare {number}", **tags("Ad" if number % 5 else "Fish")))
    give(sea, rule(words="tag:ad"))
    asked = PageQuery.read_address("/feeds/sea.atom?q=rare&limit=4")
    pages = [page_entries.select_entries(asked, sea)]
    while pages[-1].older:
        pages.append(page_entries.select_entries(asked.older_than(pages[-1].older), sea))
    assert [[row.title for row in page.entries] for page in pages] == [
        [f"Rare {number}" for number in numbers] for numbers in ((55, 50, 45, 40), (35, 30, 25, 20), (15, 10, 5))
    ]


def test_a_filter_that_this_version_cannot_read_is_left_out(sea: Feed) -> None:
    EntryFilter.objects.create(feed=sea, action="only", pattern="(?<later>syntax")
    EntryFilter.objects.create(feed=sea, pattern=".", field="language")
    EntryFilter.objects.create(feed=sea, words="ahead")
    filters.judge_feed_anew(sea.pk)
    assert shown(sea) == [2, 3, 4]


def test_entries_are_judged_some_at_a_time_and_from_where_a_process_died(
    sea: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filters, "JUDGED_AT_ONCE", 1)
    monkeypatch.setattr(filters, "_judge_quietly", lambda: None)
    give(sea, rule(words="tag:whales"))
    filters.judge_waiting(NOW, seconds=0)
    assert (shown(sea), Feed.objects.get().judged_upto) == ([2, 3, 4], Entry.objects.get(title="Whales ahead").pk)
    filters.judge_waiting(NOW)
    assert (shown(sea), Feed.objects.get().judged_upto) == ([2, 4], None)
    give(sea, rule(words="tokyo"))
    filters.judge_waiting(NOW, seconds=0)
    assert shown(sea) == [1, 2, 4]
    give(sea)  # it begins anew
    filters.judge_waiting(NOW, seconds=0)
    filters.judge_waiting(NOW)
    assert shown(sea) == [1, 2, 3, 4]


def test_older_pages_of_combinations_with_hidden_entries_are_no_longer_served(sea: Feed) -> None:
    before = Feed.objects.get().version
    give(sea, rule(words="ahead"))
    assert all_feeds().least_version == Feed.objects.get().version > before
    least = all_feeds().least_version
    give(sea, rule(words="ahead"))
    assert all_feeds().least_version == least


def test_filters_do_not_keep_entries_from_being_pruned(sea: Feed) -> None:
    give(sea, rule(words="ahead"))
    numbers.delete_entries(Entry.objects.filter(feed=sea), "pruned")
    assert not Entry.objects.exists()


def test_merged_feeds_have_the_filters_of_the_kept_one(sea: Feed) -> None:
    other = feed("other", entry(5, title="Whales again", id="5"), entry(6, title="Terns", id="6"))
    give(other, rule(words="terns"))
    give(sea, rule(words="whales"))
    Entry.objects.filter(feed=other).update(likeness=F("identity"))
    lifecycle.merge_feeds(sea.pk, [other.pk], NOW)
    filters.judge_waiting(NOW)
    assert shown(sea) == [2, 4, 6]
    assert list(EntryFilter.objects.values_list("words", flat=True)) == ["whales"]


def test_filters_of_what_an_earlier_version_deleted_go(sea: Feed) -> None:
    kept = EntryFilter.objects.create(feed=sea, words="whales")
    EntryFilter.objects.create(feed_id=sea.pk + 1_000, words="lost")
    EntryFilter.objects.create(category_id=1_000, words="tag:lost")
    filters.remove_orphans()
    assert list(EntryFilter.objects.all()) == [kept]


def narrow(subject: Category, *rules: EntryFilter) -> None:
    """Gives a category these filters instead of its own, as the admin does."""
    subject.filters.all().delete()
    for each in rules:
        each.category = subject
        entry_filters.check_filter(each)
        each.save()
    filters.show_category_anew(subject.pk, NOW)


@pytest.mark.parametrize(
    ("rules", "left"),
    [
        ([rule(words="tag:whales")], [2, 4, 5]),
        ([rule(words='tag:"deep sea"')], [1, 3, 4, 5]),
        ([rule(words="tag:whales tag:ad")], [1, 2, 4, 5]),
        ([rule(words="tag:ad"), rule(words="tag:deep")], [1, 4, 5]),
        ([rule(action="only", words="tag:whales")], [1, 3]),
        ([rule(action="only", words='tag:"deep sea"'), rule(action="only", words="tag:whal*")], [1, 2, 3]),
        ([rule(action="only", words="tag:whales"), rule(words="tag:ad")], [1]),
        ([rule(action="only", words="tag:nothing")], []),
    ],
    ids=lambda given: " & ".join(map(str, given)) if isinstance(given, list) else None,
)
def test_a_combination_shows_entries_by_their_tags_and_the_one_above_it_all(
    sea: Feed, rules: Sequence[EntryFilter], left: list[int]
) -> None:
    top = category("top")
    planet = category("planet", sea, feed("lake", entry(5, title="Whales in a lake", id="lake")), parent=top)
    narrow(planet, *(replace_row(each) for each in rules))
    assert (shown(planet), shown(top), shown(sea)) == (left, [1, 2, 3, 4, 5], [1, 2, 3, 4])
    assert shown(planet, "whales") == [number for number in left if number in {1, 3, 5}]
    assert shown(planet, '-"sea cucumbers"') == [number for number in left if number != 2]
    assert shown(planet, "feed:lake") == [number for number in left if number == 5]
    ranked = PageQuery.read_address("/feeds/category/planet.atom?order=rank&q=whales")
    found = page_entries.select_entries(ranked, planet).entries
    assert {row.title for row in found} == {row.title for row in _rows(shown(planet, "whales"))}


def _rows(shown_numbers: list[int]) -> list[Entry]:
    times = [NOW - timedelta(days=1) + timedelta(minutes=number) for number in shown_numbers]
    return list(Entry.objects.filter(happened_at__in=times))


@pytest.mark.parametrize("words", ["whales", "title:whales", "-tag:whales", "tag:whales -tag:ad", "tag:a feed:sea"])
def test_a_filter_of_a_category_has_tags_alone(words: str) -> None:
    with pytest.raises(FilterError):
        entry_filters.check_filter(rule(words=words, category_id=1))  # type: ignore[arg-type]


def test_words_of_filters_do_not_count_in_ranks(sea: Feed) -> None:
    add(sea, entry(5, title="Other", content="<p>whales</p>", **tags("Whales")))
    planet = category("planet", sea)
    ranked = PageQuery.read_address("/feeds/category/planet.atom?order=rank&q=whales")
    before = [row.title for row in page_entries.select_entries(ranked, planet).entries]
    narrow(planet, rule(action="only", words="tag:whales"), rule(action="only", words="tag:ad"))
    assert [row.title for row in page_entries.select_entries(ranked, planet).entries] == before


def follow(cursor: ChangeCursor) -> tuple[list[str], ChangeCursor]:
    """The changes since the cursor, as programs get them: titles of entries, reasons of removals with what is gone."""
    numbers.heal_memberships()
    numbers.number_changes(NOW)
    page = entry_filters.narrow_page(log.select_changes(cursor, BOUNDS))
    titles = {row.pk: row.title for row in Entry.objects.all()}
    found = [
        f"{row.reason}: {titles.get(row.entry_number or 0, 'feed')}" if isinstance(row, Removal) else row.title
        for row in page.changes
    ]
    return sorted(found), page.cursor


def begin(kind: str, subject: Feed | Category) -> tuple[list[str], ChangeCursor]:
    return follow(log.start_cursor(ChangeScope("f" if kind == "f" else "c", subject.pk)))


def edit(title: str, /, **fields: Any) -> None:
    row = Entry.objects.get(title=title)
    data = {**row.data, **documents.encode_fields(entry(0, **fields))}
    text = readings.searchable_text(documents.entry_from_json(data))
    Entry.objects.filter(pk=row.pk).update(data=data, title=data["title"], text=text, change_number=None)
    judge(row)


def judge(row: Entry) -> None:
    with transaction.atomic():
        filters.judge_stored(row.feed_id, [row.identity], NOW)


@pytest.mark.parametrize("kind", ["f", "c"])
def test_programs_are_told_of_what_is_hidden_and_get_it_again_once_it_is_shown(sea: Feed, kind: str) -> None:
    numbers.number_changes(NOW)
    before, at = begin(kind, sea if kind == "f" else all_feeds())
    assert len(before) == 4
    give(sea, rule(words="whales"))
    told, at = follow(at)
    assert told == ["filtered: Buy now!", "filtered: Whales ahead"]
    assert begin(kind, sea if kind == "f" else all_feeds())[0] == ["Below", "海の話"]
    judge(add(sea, entry(5, title="More whales")))
    edit("Whales ahead", title="Whales behind")
    assert follow(at)[0] == [], "nobody knows of hidden entries"
    edit("Whales behind", title="Terns", **tags("Terns"))
    told, at = follow(at)
    assert told == ["Terns"]
    numbers.delete_entries(Entry.objects.filter(title__in=["Buy now!", "More whales"]), "pruned")
    assert follow(at)[0] == [], "it is gone already"
    give(sea)
    assert follow(at)[0] == []


def test_an_entry_is_new_when_it_is_shown_for_the_first_time(sea: Feed) -> None:
    """Webhooks go by the number of its arrival."""
    Entry.objects.filter(title="Below").delete()
    numbers.number_changes(NOW)
    give(sea, rule(words="sea"))
    late = add(sea, entry(6, title="Sea"))
    judge(late)
    _, at = begin("f", sea)
    assert Entry.objects.get(pk=late.pk).arrival_number is None
    give(sea)
    assert follow(at)[0] == ["Sea"]
    late.refresh_from_db()
    assert late.arrival_number == late.change_number != None  # noqa: E711  a number


def test_programs_that_copy_a_combination_get_what_its_filters_show(sea: Feed) -> None:
    planet = category("planet", sea)
    numbers.check_categories([planet.pk])
    numbers.check_feeds([sea.pk])
    narrow(planet, rule(words="tag:ad"))
    told, at = begin("c", planet)
    assert told == ["Below", "Whales ahead", "海の話"]
    edit("Buy now!", title="Buy more!", **tags("Ad"))
    edit("Below", title="Below all", **tags("Deep sea", "Ad"))
    add(sea, entry(7, title="New ad", **tags("Ad")))
    add(sea, entry(8, title="New"))
    told, at = follow(at)
    assert told == ["New", "filtered: Below all", "filtered: Buy more!"]
    narrow(planet, rule(action="only", words="tag:whales"))
    told, at = follow(at)
    assert told == ["Whales ahead", "filtered: feed"]
    assert follow(at)[0] == []
    assert len(begin("c", all_feeds())[0]) == 6
