"""`/api/feeds`, `/api/feeds/<slug>`, its entries and its health: for anybody."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Literal
from urllib.parse import urlencode

from django.http import HttpRequest
from ninja import Query
from pydantic import Field

from feeds.composing import origins, selecting
from feeds.composing.asking import MOST_WORDS, Asked
from feeds.composing.errors import AskError
from feeds.composing.selecting import Bounds
from feeds.keeping import categories, health
from feeds.models import SAID, Feed
from resources.api import problems
from resources.api.problems import Problem
from resources.fetching.keeping.models import FetchTiming
from resources.fetching.keeping.records import url_digest
from retry import deferring

from .described import Entries, FeedDescribed, Feeds, Health, Timing, described, described_entry
from .routing import PUBLIC, Slug, anybody, find_readable, may_manage, router

MOST_FEEDS, MOST_ENTRIES, MOST_TIMINGS = 200, 200, 20
SEARCHED_ENTRIES, MOST_CHARACTERS = 500, 500_000
"""Of a page of entries. Main composes it while the client waits: bounded to some tens of milliseconds."""

Standing = Literal["well", "failing", "gone", "throttled", "new", "paused", "slow", "pushed", "moving"]


@router.get(
    "/feeds",
    auth=anybody,
    response=Feeds,
    operation_id="list_feeds",
    summary="List feeds",
    openapi_extra={**problems.described(401, 404, 422, 429, 503), **PUBLIC},
)
def list_feeds(
    request: HttpRequest,
    category: Annotated[str | None, Query(pattern=r"^[a-z0-9-]{1,100}$", description="A category's slug.")] = None,
    standing: Annotated[Standing | None, Query(description="Those alone that stand like that.")] = None,
    after: Annotated[str, Query(max_length=100, description="The slug after which the page begins.")] = "",
    limit: Annotated[int, Field(ge=1, le=MOST_FEEDS)] = 50,
) -> Feeds:
    """The feeds that there are, in the order of their slugs."""
    rows = Feed.objects.filter(slug__gt=_plain(after)).order_by("slug").defer(*SAID)
    if not may_manage(request):
        rows = rows.filter(is_hidden=False)
    if category is not None:
        ids = categories.with_those_below(category)
        if not ids:
            raise Problem(404, f"There is no category “{category}”.")
        members = Feed.categories.through.objects.filter(category__in=ids)
        rows = rows.filter(pk__in=members.values("feed"))
    if standing is not None:
        rows = rows.filter(health.CHOICES[standing])
    found = list(rows[: limit + 1])
    shown = found[:limit]
    given = {"category": category, "standing": standing, "after": shown[-1].slug if shown else "", "limit": limit}
    more = len(found) > limit
    return Feeds(feeds=_all_described(request, shown), next=_next(request, given) if more else None)


@router.get(
    "/feeds/{slug}",
    auth=anybody,
    response=FeedDescribed,
    operation_id="describe_feed",
    summary="Describe a feed",
    openapi_extra={**problems.described(401, 404, 422, 429, 503), **PUBLIC},
)
def describe_feed(request: HttpRequest, slug: Slug) -> FeedDescribed:
    """What is known of a feed."""
    return one_described(request, find_readable(request, slug))


@router.get(
    "/feeds/{slug}/health",
    auth=anybody,
    response=Health,
    operation_id="feed_health",
    summary="Tell how a feed stands",
    openapi_extra={**problems.described(401, 404, 422, 429, 503), **PUBLIC},
)
def feed_health(request: HttpRequest, slug: Slug) -> Health:
    """How a feed stands, when it is fetched next, and why then."""
    feed = find_readable(request, slug)
    timings = FetchTiming.objects.filter(url_digest=url_digest(feed.url)).order_by("-started_at")
    return Health(
        slug=feed.slug,
        standing=health.word(feed),
        trouble=health.trouble(feed) or None,
        failures=feed.failures,
        failing_since=feed.failing_since,
        why=health.told(feed, datetime.now(UTC)) if may_manage(request) else [],
        next_check_at=feed.next_check_at,
        checked_at=feed.checked_at,
        fetched_at=feed.fetched_at,
        changed_at=feed.changed_at,
        expected_seconds=feed.expected_seconds,
        notes=feed.notes if may_manage(request) else [],
        fetches=[_timing(row) for row in timings[:MOST_TIMINGS]],
    )


@router.get(
    "/feeds/{slug}/entries",
    auth=anybody,
    response=Entries,
    operation_id="list_entries",
    summary="List a feed's entries",
    openapi_extra={**problems.described(401, 404, 422, 429, 503), **PUBLIC},
)
def list_entries(  # noqa: PLR0917  # by ninja they are the call's parameters
    request: HttpRequest,
    slug: Slug,
    q: Annotated[str, Query(max_length=200, description=f"Words that an entry must have, {MOST_WORDS} at most.")] = "",
    since: Annotated[str, Query(max_length=40, description="The oldest, as RFC 3339 or a date.")] = "",
    before: Annotated[str, Query(max_length=40, description="Where the page begins, as `next` has it.")] = "",
    limit: Annotated[int, Field(ge=1, le=MOST_ENTRIES)] = 50,
) -> Entries:
    """What is kept of a feed's entries, newest first."""
    feed = find_readable(request, slug)
    given = {"q": q, "since": since, "before": before, "limit": str(limit)}
    try:
        asked = Asked.read(f"/feeds/{feed.slug}.json", {name: [value] for name, value in given.items() if value})
    except AskError as error:
        raise Problem(422, str(error)) from error
    assert asked is not None
    found = selecting.select(asked, feed, Bounds(SEARCHED_ENTRIES, MOST_CHARACTERS))
    older, origin = {**given, "before": str(found.older)}, origins.of(feed)
    return Entries(
        entries=[described_entry(row, origin) for row in found.entries],
        next=_next(request, older) if found.older else None,
    )


def one_described(request: HttpRequest, feed: Feed) -> FeedDescribed:
    (only,) = _all_described(request, [feed])
    return only


def _all_described(request: HttpRequest, feeds: list[Feed]) -> list[FeedDescribed]:
    paths, site = categories.paths_of(feeds), deferring.public_url(request)
    with_url = may_manage(request)
    return [described(feed, paths[feed.pk], site, with_url=with_url) for feed in feeds]


def _plain(slug: str) -> str:
    """PostgreSQL would not even compare NUL."""
    return slug.replace("\0", "")


def _next(request: HttpRequest, given: Mapping[str, str | int | None]) -> str:
    query = urlencode({name: value for name, value in given.items() if value})
    return f"{deferring.public_url(request)}{request.path}?{query}"


def _timing(row: FetchTiming) -> Timing:
    return Timing(
        started_at=row.started_at, seconds=row.seconds, bytes=row.wire_bytes, outcome=row.outcome, status=row.status
    )
