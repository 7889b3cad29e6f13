"""Finds the subject of a page, a feed or a category, and selects its entries.

Keyset pagination: the depth of a page does not matter. Entries are read without the secrets of the feed's address,
and under ids that stay.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from django.conf import settings
from django.db.models import QuerySet

from retry.popularity import GENERATION_MARK

from .. import addresses as feeds_addresses
from .. import categories, stories
from ..errors import UnknownFeedError
from ..models import LONG_FIELDS, Category, Entry, Feed, Move
from ..output import output_page
from ..output.output_page import FeedOrigin, Mention
from ..parser import documents
from ..push.websub import OWN_HUB
from . import entry_filters, entry_search
from .entry_search import EntryWindow, SearchScope
from .query import ALL_SLUG, Cursor, PageQuery
from .search_terms import SearchQuery


def find_subject(asked: PageQuery, *, is_bare: bool = False) -> Feed | Category:
    """Returns the feed or the category; of a bare feed not its own texts, which may be long.

    Raises UnknownFeedError, DatabaseError.
    """
    subject: Feed | Category | None
    if asked.is_combined:
        subject = Category.objects.filter(slug=asked.slug).first()
    else:
        feeds = Feed.objects.filter(slug=asked.slug, is_hidden=False)
        subject = feeds.defer(*LONG_FIELDS if is_bare else ()).first()
    if subject is None:
        raise UnknownFeedError("There is no such feed.")
    return subject


def page_content_key(asked: PageQuery, subject: Feed | Category) -> str:
    """The content key of a page of this very feed, or of a combination since the last withdrawal from it.

    Pages of another feed that once had this slug, and pages with withdrawn entries, have other keys.
    """
    which = str(subject.pk) if isinstance(subject, Feed) else f"{subject.pk}.{subject.least_version}"
    return f"{asked.key}{GENERATION_MARK}{which}"


MAX_PAGE_CHARACTERS = 5_000_000
"""Of all entries of a page: it ends before its limit if they are long."""
_MAX_ROWS = 1_000
"""Entries that are looked at together for those that a page shows."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Entries of a page, without their search texts; and the cursors of older and newer pages.

    The newest are first; of a search with the best first, the best.
    """

    entries: tuple[Entry, ...]
    older: Cursor | None
    newer: Cursor | None


def select_entries(asked: PageQuery, subject: Feed | Category, max_characters: int | None = None) -> Selection:
    """Selects the page's entries, by default within MAX_PAGE_CHARACTERS. Raises SearchTimeoutError, DatabaseError."""
    most = max_characters or MAX_PAGE_CHARACTERS
    if asked.order == "rank":
        return _select_ranked(asked, subject, most)
    if asked.after is not None:
        ahead = EntryWindow(asked.since, asked.after, is_backward=False)
        found, is_cut = _take_page(asked, _matching_entries(asked, subject, ahead), most)
        if is_cut:
            return Selection(tuple(found[::-1]), _cursor_at(found[0]), newer=_cursor_at(found[-1]))
    window = EntryWindow(asked.since, asked.before)
    found, is_cut = _take_page(asked, _matching_entries(asked, subject, window), most)
    older = _cursor_at(found[-1]) if is_cut else None
    return Selection(tuple(found), older, newer=_cursor_at(found[0]) if found and asked.before else None)


def _select_ranked(asked: PageQuery, subject: Feed | Category, most: int) -> Selection:
    """Selects from the newest matches up to the cursor's entry, which was the newest when the search began."""
    place = asked.before or None
    upto = Cursor(place.happened_at, place.number + 1) if place else None
    search, passed = _page_search(asked, subject), place.passed if place else 0
    ranked = entry_search.rank_matches(search, _search_scope(search, subject), EntryWindow(asked.since, upto))
    found, is_cut = _take_page(asked, _sized_entries(ranked[passed:]), most)
    newest = place or _newest_of(ranked)
    older = replace(newest, passed=passed + len(found)) if is_cut and newest else None
    before = replace(place, passed=max(0, passed - asked.limit)) if place else None
    return Selection(tuple(found), older, newer=before)


def _newest_of(numbers: Collection[int]) -> Cursor | None:
    newest = Entry.objects.filter(pk__in=numbers).only("happened_at").order_by("-happened_at", "-pk").first()
    return _cursor_at(newest) if newest else None


def feeds_in_category(category: Category) -> QuerySet[Feed]:
    playing = Feed.objects.filter(paused=False, is_hidden=False)
    return playing if category.slug == ALL_SLUG else playing.filter(categories.feeds_below(category.slug))


def _candidate_entries(subject: Feed | Category) -> QuerySet[Entry]:
    if isinstance(subject, Feed):
        return Entry.objects.filter(feed=subject)
    if subject.slug == ALL_SLUG:
        return Entry.objects.filter(feed__paused=False, feed__is_hidden=False)
    return Entry.objects.filter(feed__in=feeds_in_category(subject))


def _page_search(asked: PageQuery, subject: Feed | Category) -> SearchQuery:
    """The page's search, for those of a combination's entries that its filters show."""
    return asked.search if isinstance(subject, Feed) else entry_filters.narrow_search(asked.search, subject.pk)


def _search_scope(search: SearchQuery, subject: Feed | Category) -> SearchScope:
    is_alone, is_all = isinstance(subject, Feed), subject.slug == ALL_SLUG
    feeds = Feed.objects.filter(pk=subject.pk) if isinstance(subject, Feed) else feeds_in_category(subject)
    scope = SearchScope.of(search, _candidate_entries(subject), feeds, is_all=is_all and not is_alone)
    return replace(scope, is_combined=not is_alone)


def _matching_entries(asked: PageQuery, subject: Feed | Category, window: EntryWindow) -> Iterator[tuple[int, int]]:
    """Yields ids and sizes of one entry more than a page has, or of more, in the window's order."""
    search = _page_search(asked, subject)
    if not asked.words and not search.is_narrowed:
        return _shown_entries(subject, window, asked.limit + 1)
    scope = _search_scope(search, subject)
    return _sized_entries(entry_search.find_matches(search, scope, window, asked.limit + 1))


def _shown_entries(subject: Feed | Category, window: EntryWindow, wanted: int) -> Iterator[tuple[int, int]]:
    """Yields ids and sizes of entries, as far as they are consumed: of a combination one of each story."""
    among, is_alone = _candidate_entries(subject).filter(filtered_at=None), isinstance(subject, Feed)
    count = wanted if is_alone else wanted + wanted // 2
    while True:
        rows = list(window.choose(among).values_list("pk", "size", "happened_at", "story")[:count])
        repeated = set() if is_alone else stories.find_repeated({row[0]: row[3] for row in rows}, among)
        yield from ((pk, size) for pk, size, *_ in rows if pk not in repeated)
        if len(rows) < count:
            return
        last, _, happened_at, _ = rows[-1]
        window, count = replace(window, place=Cursor(happened_at, last)), min(2 * count, _MAX_ROWS)


def _sized_entries(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    sizes = dict(Entry.objects.filter(pk__in=numbers).order_by().values_list("pk", "size"))
    return ((number, sizes[number]) for number in numbers if number in sizes)


def _take_page(asked: PageQuery, matching: Iterable[tuple[int, int]], most: int) -> tuple[list[Entry], bool]:
    """Returns as many entries as a page has, and whether there are more."""
    chosen: list[int] = []
    characters, is_cut = 0, False
    for pk, size in matching:
        characters += size
        is_cut = len(chosen) == asked.limit or (bool(chosen) and characters > most)
        if is_cut:
            break
        chosen.append(pk)
    rows = Entry.objects.defer("text").in_bulk(chosen)
    found = [rows[pk] for pk in chosen if pk in rows]  # some may be deleted since
    return found, is_cut and bool(found)


def _cursor_at(entry: Entry) -> Cursor:
    return Cursor(entry.happened_at, entry.pk)


ORIGIN_FIELDS = (
    *("slug", "url", "validated_url", "host", "title", "own_title", "site", "said"),
    *("icon", "full_content"),
)
_NOT_IN_TAGS = re.compile(r"[^a-z0-9.-]+")


def site_url() -> str:
    return settings.PUBLIC_URL or f"http://127.0.0.1:{settings.PORT}"


HUB_PATH, CLOUD_PATH = "/hub", "/hub/cloud"


def hub_address() -> str:
    """The URL of the hub that this site's output names; empty for none."""
    return f"{site_url()}{HUB_PATH}" if settings.FEEDS_HUB == OWN_HUB else str(settings.FEEDS_HUB)


def cloud_address() -> str:
    """The URL of this site's rssCloud; empty unless this site is the hub of its own feeds."""
    return f"{site_url()}{CLOUD_PATH}" if settings.FEEDS_HUB == OWN_HUB else ""


def find_origin(feed: Feed) -> FeedOrigin:
    """Returns the feed's origin, by its row and its moves. Raises DatabaseError."""
    return _make_origin(feed, known_addresses([feed])[feed.pk])


def known_addresses(feeds: Collection[Feed]) -> Mapping[int, set[str]]:
    """The feed's present and former addresses, and their redirects: old entries may repeat their secrets."""
    found = {feed.pk: {feed.url, feed.validated_url} for feed in feeds}
    for feed_id, *urls in Move.objects.filter(feed__in=list(found)).values_list("feed_id", "old_url", "new_url"):
        found[feed_id].update(urls)
    return found


def _make_origin(feed: Feed, addresses: Iterable[str]) -> FeedOrigin:
    secrets, asked = feeds_addresses.find_secrets(*addresses), PageQuery.page_of_feed(feed.slug)
    return FeedOrigin(
        id=_tag_uri("feed", feed.pk),
        url=f"{site_url()}{asked.as_format('atom').address}",
        page=asked.address,
        title=feed.shown_title,
        site=feed.shown_site,
        head=documents.feed_from_json(feeds_addresses.leave_out_secrets(feed.said, secrets)),
        secrets=secrets,
        icon="" if any(part in feed.icon for part in secrets) else feed.icon,
        has_articles=feed.full_content,
    )


def find_origins(subject: Feed | Category, entries: Iterable[Entry]) -> Mapping[int, FeedOrigin]:
    """Returns the origins of these entries, which are on a page of `subject`, by feed."""
    if isinstance(subject, Feed):
        return {subject.pk: find_origin(subject)}
    return find_all_origins({entry.feed_id for entry in entries})


def find_all_origins(feeds: Collection[int]) -> Mapping[int, FeedOrigin]:
    """Returns the origins of these feeds, by their ids; deleted ones are missing. Raises DatabaseError."""
    rows = Feed.objects.only(*ORIGIN_FIELDS).in_bulk(feeds)
    addresses = known_addresses(rows.values())
    return {pk: _make_origin(feed, addresses[pk]) for pk, feed in rows.items()}


def load_entry(row: Entry, origin: FeedOrigin, *, among_feeds: bool = False) -> documents.ParsedEntry:
    """Reads an entry from its row, without secrets. With `among_feeds` its id is none of another feed's entry."""
    read = documents.entry_from_json(feeds_addresses.leave_out_secrets(row.data, origin.secrets))
    filled = output_page.fill_entry(read, has_articles=origin.has_articles)
    is_shared = row.shared_id >= (1 if among_feeds else 2)
    return output_page.identify_entry(filled, _tag_uri("entry", row.pk), is_shared=is_shared)


def load_entries(
    among: Sequence[tuple[Entry, FeedOrigin]], *, among_feeds: bool = False
) -> Iterator[tuple[documents.ParsedEntry, FeedOrigin]]:
    """Reads the entries of a page, under different ids: of rows from before `shared_id`, the first keeps its id."""
    read = [load_entry(row, origin, among_feeds=among_feeds) for row, origin in among]
    first: dict[str, int] = {}
    for (row, _), entry in zip(among, read, strict=True):
        first[entry.id] = min(row.pk, first.get(entry.id, row.pk))
    for (row, origin), entry in zip(among, read, strict=True):
        own = replace(entry, id=_tag_uri("entry", row.pk))
        yield (entry if first[entry.id] == row.pk else own), origin


MAX_MENTIONS, _MAX_MATES = 20, 2_000
"""Feeds that are named with one entry; and entries that are looked at for one page."""


def find_mentions(subject: Feed | Category, entries: Sequence[Entry]) -> Mapping[int, Sequence[Mention]]:
    """Returns the other feeds that have these entries' stories, by the entries' ids. Raises DatabaseError.

    Only feeds of the same combination, by the entries that its filters show: else a page could go on naming a feed
    that was hidden. With the entries of one feed it is all feeds, for answers that are not kept.
    """
    mates: defaultdict[int, dict[int, str]] = defaultdict(dict)
    for pk, story, feed_id, link in _find_mates(subject, {entry.story or entry.pk for entry in entries}):
        mates[story or pk].setdefault(feed_id, link)  # a feed that was merged may have two
    others = {
        entry.pk: [
            (feed_id, link) for feed_id, link in mates[entry.story or entry.pk].items() if feed_id != entry.feed_id
        ]
        for entry in entries
    }
    named = {pk: some[:MAX_MENTIONS] for pk, some in others.items() if some}
    return _make_mentions(named) if named else {}


def _find_mates(subject: Feed | Category, numbers: Collection[int]) -> list[tuple[int, int | None, int, str]]:
    """Returns ids, stories, feeds and links of the shown entries of these stories."""
    among = _candidate_entries(subject)
    if isinstance(subject, Feed):
        among = Entry.objects.filter(feed__paused=False, feed__is_hidden=False).exclude(feed=subject)
    shown = among.filter(stories.members_of(numbers), filtered_at=None).order_by("pk")
    rows = list(shown.values_list("pk", "story", "feed_id", "link")[:_MAX_MATES])
    search = entry_filters.EVERYTHING
    if isinstance(subject, Category):
        search = entry_filters.narrow_search(search, subject.pk)
    if not search.is_narrowed:
        return rows
    found = entry_search.judge_entries(search, [row[0] for row in rows])
    return [row for row in rows if row[0] in found]


def _make_mentions(named: Mapping[int, Sequence[tuple[int, str]]]) -> Mapping[int, Sequence[Mention]]:
    feeds = Feed.objects.filter(pk__in={feed_id for some in named.values() for feed_id, _ in some})
    rows = feeds.only("slug", "url", "validated_url", "host", "title", "own_title").in_bulk()
    secrets = {pk: feeds_addresses.find_secrets(*urls) for pk, urls in known_addresses(rows.values()).items()}

    def mention(feed: Feed, link: str) -> Mention:
        page = f"{site_url()}{PageQuery.page_of_feed(feed.slug).address}"
        shown = link and not any(part in link for part in secrets[feed.pk])
        return Mention(feed.slug, feed.shown_title, link if shown else page)

    return {pk: [mention(rows[feed], link) for feed, link in some if feed in rows] for pk, some in named.items()}


def _tag_uri(kind: str, number: int) -> str:
    """An id that follows no address (RFC 4151): the row's number."""
    host = _NOT_IN_TAGS.sub("-", urlsplit(site_url()).hostname or "").strip("-")
    return f"tag:{host},2026:{kind}:{number}"
