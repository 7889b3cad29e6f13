"""The API's reads, open to all: `/api/feeds`, `/api/feeds/<slug>`, its entries and its health.

The router is here and is shared with `manage`: ninja answers other methods by router.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, cast
from urllib.parse import urlencode

from django.http import HttpRequest
from ninja import Path, Query, Router
from pydantic import Field

from resources import problems
from resources.fetch.models import FetchTiming
from resources.fetch.timings import digest_url
from resources.problems import Problem
from resources.tokens import auth
from resources.tokens.models import ApiToken
from retry import deferral

from .. import categories, feed_rows, followers, health
from ..errors import PageQueryError, SearchTimeoutError
from ..models import LONG_FIELDS, MAX_SLUG_CHARACTERS, Category, Entry, Feed
from ..opml import CategoryPath
from ..output.output_page import FeedOrigin
from ..pages import change_page, page_entries, render
from ..pages.page_entries import Selection
from ..pages.query import ALL_SLUG, PageOrder, PageQuery
from ..pages.search_terms import MAX_SEARCH_CHARACTERS
from .schemas import (
    Entries,
    FeedDescribed,
    Feeds,
    Filter,
    FoundEntries,
    FoundEntry,
    Health,
    ListedEntry,
    OtherFeed,
    Timing,
    describe_filters,
)

router = Router(tags=["feeds"])

FeedSlug = Annotated[
    str, Path(pattern=r"^[a-z0-9]+(?:-[a-z0-9]+)*$", max_length=MAX_SLUG_CHARACTERS, description="The feed's slug.")
]


def optional_token(request: HttpRequest) -> ApiToken | bool | None:
    """The token's row; True without a token. None, which becomes 401, for a token that is not in force."""
    return auth.Token()(request) if "Authorization" in request.headers else True


OPEN_TO_ALL: dict[str, Any] = {
    "auth": optional_token,
    "openapi_extra": {**problems.describe_problems(401, 404, 422, 429, 503), "security": [{}, {"Token": []}]},
}


def find_feed(slug: str) -> Feed:
    """Finds the feed that has this slug now: no other may be changed or removed. Raises Problem.

    Its long fields are deferred: they are read when they are needed.
    """
    feed = Feed.objects.filter(slug=slug).defer(*LONG_FIELDS).first()
    if feed is None:
        now_called = feed_rows.current_slug(slug, also_hidden=True)
        hint = f"Its slug is “{now_called}” now." if now_called else "/api/feeds lists all feeds."
        raise Problem(404, f"There is no feed “{slug}”. {hint}")
    return feed


def find_readable_feed(request: HttpRequest, slug: str) -> Feed:
    """Finds the feed that has or had this slug, or into which that one was merged. Raises Problem.

    Hidden feeds are found with tokens that may manage feeds alone.
    """
    may_see_all = may_manage(request)
    slugs = [slug] if (there := feed_rows.current_slug(slug, also_hidden=may_see_all)) is None else [slug, there]
    feeds = Feed.objects.filter(slug__in=slugs).defer(*LONG_FIELDS)
    found = {feed.slug: feed for feed in (feeds if may_see_all else feeds.filter(is_hidden=False))}
    feed = found.get(slug) or found.get(slugs[-1])
    if feed is None:
        raise Problem(404, f"There is no feed “{slug}”. /api/feeds lists all feeds.")
    return feed


def may_manage(request: HttpRequest) -> bool:
    token = request.auth  # type: ignore[attr-defined]  # ninja sets it
    return isinstance(token, ApiToken) and token.may_manage_feeds


def require_manage_token(request: HttpRequest) -> ApiToken:
    """Returns the token of the request. Raises Problem if it may not manage feeds."""
    token = cast(ApiToken, request.auth)  # type: ignore[attr-defined]  # ninja sets it
    if not token.may_manage_feeds:
        raise Problem(403, f"The token “{token}” may not manage feeds. An admin can permit it.")
    return token


def require_user(request: HttpRequest) -> int:
    """Returns the id of the token's user, who follows feeds with it. Raises Problem if it has none."""
    token = cast(ApiToken, request.auth)  # type: ignore[attr-defined]  # ninja sets it
    if token.user_id is None:
        raise Problem(403, f"The token “{token}” has no user, who could follow feeds. An admin can set one.")
    return token.user_id


_CHECK_FIELDS = ("slug", "changed_at", "checked_at", "next_check_at")
_HEALTH_FIELDS = (*_CHECK_FIELDS, "failures", "failing_since", "fetched_at", "expected_seconds")
_TIMING_FIELDS = ("started_at", "seconds", "outcome", "status")


def _copy_fields(row: object, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(row, name) for name in names}


def feed_description(  # noqa: PLR0917
    feed: Feed,
    categories: tuple[CategoryPath, ...],
    subscribers: int,
    site: str,
    icon: str,
    filters: list[Filter] | None,
) -> FeedDescribed:
    """Describes a feed; its address too if its filters are given."""
    page = f"{site}/feeds/{feed.slug}"
    return FeedDescribed(
        **_copy_fields(feed, _CHECK_FIELDS),
        title=feed.shown_title,
        site=feed.shown_site or None,
        url=None if filters is None else feed.url,
        filters=filters,
        categories=[list(path) for path in categories],
        standing=health.health_word(feed),
        hidden=feed.is_hidden,
        full_content=feed.full_content,
        icon=f"{site}{icon}" if icon else None,
        subscribers=subscribers,
        atom=f"{page}.atom",
        rss=f"{page}.rss",
        json_feed=f"{page}.json",
    )


def _describe_entries(
    rows: Sequence[Entry], by_feed: Mapping[int, FeedOrigin], subject: Feed | Category
) -> Iterator[ListedEntry]:
    """Describes entries of a feed or of a combination, with the other feeds that have them."""
    among_feeds, also_in = isinstance(subject, Category), page_entries.find_mentions(subject, rows)
    read = page_entries.load_entries([(row, by_feed[row.feed_id]) for row in rows], among_feeds=among_feeds)
    for row, each in zip(rows, read, strict=True):
        others = [OtherFeed.from_orm(other) for other in also_in.get(row.pk, ())]
        yield ListedEntry(**change_page.describe_read(row, *each), also_in=others)


MAX_FEEDS, MAX_ENTRIES, MAX_TIMINGS = 200, 200, 20
MAX_ENTRIES_CHARACTERS = 500_000
"""The bound of a page of entries. Main composes it while the client waits: some tens of milliseconds."""

HealthWord = Literal["well", "failing", "gone", "throttled", "new", "paused", "slow", "pushed", "moving"]


@router.get("/feeds", response=Feeds, summary="List feeds", **OPEN_TO_ALL)
def list_feeds(
    request: HttpRequest,
    category: Annotated[str | None, Query(pattern=r"^[a-z0-9-]{1,100}$", description="A category's slug.")] = None,
    standing: Annotated[HealthWord | None, Query(description="Only feeds with this health.")] = None,
    after: Annotated[str, Query(max_length=100, description="The slug after which the page begins.")] = "",
    limit: Annotated[int, Field(ge=1, le=MAX_FEEDS)] = 50,
) -> Feeds:
    """Lists the feeds in the order of their slugs."""
    after = after.replace("\0", "")  # PostgreSQL would not even compare it
    rows = Feed.objects.filter(slug__gt=after).order_by("slug").defer(*LONG_FIELDS)
    if not may_manage(request):
        rows = rows.filter(is_hidden=False)
    if category is not None:
        if not Category.objects.filter(slug=category).exists():
            raise Problem(404, f"There is no category “{category}”.")
        rows = rows.filter(categories.feeds_below(category))
    if standing is not None:
        rows = rows.filter(health.HEALTH_CHOICES[standing])
    found = list(rows[: limit + 1])
    shown = found[:limit]
    given = {"category": category, "standing": standing, "after": shown[-1].slug if shown else "", "limit": limit}
    return Feeds(feeds=_descriptions_for(request, shown), next=_next_url(request, given) if found[limit:] else None)


@router.get("/feeds/{slug}", response=FeedDescribed, summary="Describe a feed", **OPEN_TO_ALL)
def describe_feed(request: HttpRequest, slug: FeedSlug) -> FeedDescribed:
    """Describes a feed."""
    return description_for(request, find_readable_feed(request, slug))


@router.get("/feeds/{slug}/health", response=Health, summary="Describe the health of a feed", **OPEN_TO_ALL)
def feed_health(request: HttpRequest, slug: FeedSlug) -> Health:
    """The feed's health, and its next check with the reasons."""
    feed = find_readable_feed(request, slug)
    timings = FetchTiming.objects.filter(url_digest=digest_url(feed.url)).order_by("-started_at")
    return Health(
        **_copy_fields(feed, _HEALTH_FIELDS),
        standing=health.health_word(feed),
        trouble=health.trouble_words(feed) or None,
        why=health.explain_schedule_publicly(feed, datetime.now(UTC)) if may_manage(request) else [],
        notes=feed.notes if may_manage(request) else [],
        fetches=[Timing(bytes=row.wire_bytes, **_copy_fields(row, _TIMING_FIELDS)) for row in timings[:MAX_TIMINGS]],
    )


_SEARCH: dict[str, Any] = {
    "max_length": MAX_SEARCH_CHARACTERS,
    "description": 'A search: words, begin*, "phrases", -excluded, title: author: tag: feed:.',
}
Since = Annotated[str, Query(max_length=40, description="The oldest, as RFC 3339 or a date.")]
Before = Annotated[str, Query(max_length=60, description="Where the page begins, as `next` has it.")]
Order = Annotated[PageOrder, Query(description="Of a search: the newest first, or the best of the newest matches.")]
EntryLimit = Annotated[int, Field(ge=1, le=MAX_ENTRIES)]


@router.get("/feeds/{slug}/entries", response=Entries, summary="List a feed's entries", **OPEN_TO_ALL)
def list_entries(  # noqa: PLR0917  # by ninja they are the call's parameters
    request: HttpRequest,
    slug: FeedSlug,
    q: Annotated[str, Query(**_SEARCH)] = "",
    since: Since = "",
    order: Order = "date",
    before: Before = "",
    limit: EntryLimit = 50,
) -> Entries:
    """Lists a feed's stored entries, newest first, or those of a search."""
    feed = find_readable_feed(request, slug)
    given = {"q": q, "since": since, "order": order, "before": before, "limit": str(limit)}
    found = _select_entries(f"/feeds/{feed.slug}.json", given, feed)
    described = _describe_entries(found.entries, page_entries.find_origins(feed, found.entries), feed)
    return Entries(entries=list(described), next=_next_entries(request, given, found))


@router.get("/search", response=FoundEntries, summary="Search the entries of all feeds", **OPEN_TO_ALL)
def search_entries(  # noqa: PLR0917  # by ninja they are the call's parameters
    request: HttpRequest,
    q: Annotated[str, Query(min_length=1, **_SEARCH)],
    category: Annotated[str, Query(pattern=r"^[a-z0-9-]{0,100}$", description="A category's slug.")] = "",
    since: Since = "",
    order: Order = "date",
    before: Before = "",
    limit: EntryLimit = 50,
) -> FoundEntries:
    """Searches the stored entries of all feeds, or of a category's, without hidden and paused ones."""
    given = {"q": q, "category": category, "since": since, "order": order, "before": before, "limit": str(limit)}
    subject = Category.objects.filter(slug=category or ALL_SLUG).first()
    if subject is None:
        raise Problem(404, f"There is no category “{category}”.")
    path = PageQuery.page_of_category(subject.slug).as_format("json").path
    found = _select_entries(path, given, subject)
    by_feed = page_entries.find_origins(subject, found.entries)
    return FoundEntries(entries=_found_entries(found, by_feed, subject), next=_next_entries(request, given, found))


def _found_entries(found: Selection, by_feed: Mapping[int, FeedOrigin], subject: Category) -> list[FoundEntry]:
    """Describes entries, without those of feeds that were deleted just now."""
    slugs = dict(Feed.objects.filter(pk__in=by_feed).values_list("pk", "slug"))
    shown = [row for row in found.entries if row.feed_id in slugs]
    described = zip(shown, _describe_entries(shown, by_feed, subject), strict=True)
    return [FoundEntry(**one.model_dump(), feed=slugs[row.feed_id]) for row, one in described]


def _select_entries(path: str, given: Mapping[str, str], subject: Feed | Category) -> Selection:
    """Selects entries by the parameters of a page at that path. Raises Problem."""
    try:
        asked = PageQuery.read(path, {name: [value] for name, value in given.items() if value})
        assert asked is not None
        return page_entries.select_entries(asked, subject, MAX_ENTRIES_CHARACTERS)
    except PageQueryError as error:
        raise Problem(422, str(error)) from error
    except SearchTimeoutError as error:
        raise Problem(503, str(error)) from error


def _next_entries(request: HttpRequest, given: Mapping[str, str], found: Selection) -> str | None:
    return _next_url(request, {**given, "before": str(found.older)}) if found.older else None


def description_for(request: HttpRequest, feed: Feed) -> FeedDescribed:
    (only,) = _descriptions_for(request, [feed])
    return only


def _descriptions_for(request: HttpRequest, feeds: list[Feed]) -> list[FeedDescribed]:
    paths, site, ids = categories.paths_by_feed(feeds), deferral.public_url(request), [feed.pk for feed in feeds]
    counts, icons = followers.count_subscribers(ids), render.icon_addresses(feeds)
    filters = describe_filters(ids) if may_manage(request) else None
    found = [(feed, paths[feed.pk], counts.get(feed.pk, 0), icons.get(feed.pk, "")) for feed in feeds]  # 0: deleted now
    return [
        feed_description(*each[:3], site, each[3], None if filters is None else filters.get(each[0].pk, []))
        for each in found
    ]


def _next_url(request: HttpRequest, given: Mapping[str, str | int | None]) -> str:
    query = urlencode({name: value for name, value in given.items() if value})
    return f"{deferral.public_url(request)}{request.path}?{query}"
