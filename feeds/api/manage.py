"""The API's changes: adding, changing, fetching, removing and following feeds, with a token that may."""

import logging
from datetime import UTC, datetime
from typing import Annotated, Any

from django.db import transaction
from django.http import HttpRequest
from ninja import Schema, Status
from pydantic import ConfigDict, Field

from resources import problems
from resources.problems import Problem
from resources.tokens import auth

from .. import addresses, catalogue, feed_rows, filters, followers, lifecycle, supplements
from ..addresses import FeedLocation
from ..errors import FeedAddressError, FeedError
from ..models import MAX_INTERVAL_SECONDS, MIN_INTERVAL_SECONDS, Feed
from ..parser import documents
from . import (
    read,
    stream,  # noqa: F401  # it and sync add to the router
)
from .read import FeedSlug, router
from .schemas import FeedDescribed, Filters, read_filters

MAX_CATEGORIES, MAX_CATEGORY_DEPTH = 20, 10
FeedTitle = Annotated[str, Field(max_length=500)]
IntervalSeconds = Annotated[int, Field(ge=MIN_INTERVAL_SECONDS, le=MAX_INTERVAL_SECONDS)]
CategoryName = Annotated[str, Field(min_length=1, max_length=200)]
CategoryNames = Annotated[list[CategoryName], Field(min_length=1, max_length=MAX_CATEGORY_DEPTH)]
FULL_CONTENT = "Fetches the page of each entry whose text is an excerpt, and gives its article."

_log = logging.getLogger("tarry.api")


class ToAdd(Schema):
    """A feed, or a page that announces one. It is fetched at once; its content tells which."""

    model_config = ConfigDict(extra="forbid", strict=True)

    url: str = Field(max_length=2000, examples=["https://blog.example/"])
    title: FeedTitle = Field(default="", description="Default: the feed's own title.")
    categories: list[CategoryNames] = Field(
        default_factory=list,
        max_length=MAX_CATEGORIES,
        description="Each with its parents, the outermost first. Missing categories are created.",
        examples=[[["News", "Technology"]]],
    )
    full_content: bool = Field(default=False, description=f"{FULL_CONTENT} A feed that is known stays as it is.")
    filters: Filters = Field(
        default_factory=list, description="Of a new feed; one that was there keeps its own.", examples=[[]]
    )


class ToChange(Schema):
    """Omitted fields stay as they are; null resets a bound to the site's own."""

    model_config = ConfigDict(extra="forbid", strict=True)

    title: FeedTitle | None = None
    paused: bool | None = None
    hidden: bool | None = Field(default=None, description="Excludes the feed from combined feeds and public pages.")
    full_content: bool | None = Field(default=None, description=FULL_CONTENT)
    least_seconds: IntervalSeconds | None = Field(default=None, description="The minimum interval between checks.")
    most_seconds: IntervalSeconds | None = Field(default=None, description="The maximum interval between checks.")
    filters: Filters | None = Field(default=None, description="In place of all that the feed has.")


class Done(Schema):
    slug: str
    detail: str


def _with_token(*statuses: int) -> dict[str, Any]:
    """The options of an operation that needs a token. It may answer these problems besides those of all of them."""
    return {"auth": auth.Token(), "openapi_extra": problems.describe_problems(401, 403, 422, 429, 503, *statuses)}


@router.post("/feeds", response={200: FeedDescribed, 201: FeedDescribed}, summary="Add a feed", **_with_token(400))
def add_feed(request: HttpRequest, wanted: ToAdd) -> Status[FeedDescribed]:
    """Adds the feed at an address, or the one that the page there announces: 201. 200 if it was there."""
    token = read.require_manage_token(request)
    now = datetime.now(UTC)
    try:
        address = addresses.read_address(wanted.url)
        read_filters(0, wanted.filters)
        feed, is_new = _add_feed(address, wanted, now)
    except FeedAddressError as error:
        raise Problem(422, f"url: {error}") from error
    except FeedError as error:
        raise Problem(503, str(error), 1) from error
    if is_new:
        feed_rows.flag_feeds([feed.pk], now)
        _log.info("feed added", extra={"token": token.name, "feed": feed.slug})
    return Status(201 if is_new else 200, read.description_for(request, feed))


def _add_feed(address: FeedLocation, wanted: ToAdd, now: datetime) -> tuple[Feed, bool]:
    paths = [tuple(path) for path in wanted.categories]
    with transaction.atomic():
        feed, is_new = catalogue.add_feed(address, title=wanted.title, categories=paths, now=now)
        if is_new and wanted.full_content:
            feed.full_content = True
            feed.save(update_fields=["full_content"])
        if is_new:
            filters.replace_filters(feed.pk, read_filters(feed.pk, wanted.filters))
    return feed, is_new


@router.patch("/feeds/{slug}", response=FeedDescribed, summary="Change a feed", **_with_token(400, 404))
def change_feed(request: HttpRequest, slug: FeedSlug, wanted: ToChange) -> FeedDescribed:
    """Changes a feed's title, how often it is checked, whether it is fetched at all, and whether it is public."""
    read.require_manage_token(request)
    feed, now = read.find_feed(slug), datetime.now(UTC)
    given = wanted.dict(exclude_unset=True)
    paused, hidden = given.pop("paused", None), given.pop("hidden", None)
    given.pop("filters", None)
    rules = None if wanted.filters is None else read_filters(feed.pk, wanted.filters)
    if given.get("full_content", True) is None:
        del given["full_content"]
    if "title" in given:
        given["title"] = documents.strip_unstorable(given["title"] or "")
    least = given.get("least_seconds", feed.least_seconds)
    most = given.get("most_seconds", feed.most_seconds)
    if least and most and least > most:
        raise Problem(422, "least_seconds must not be above most_seconds.")
    with transaction.atomic():
        if given:
            Feed.objects.filter(pk=feed.pk).update(**given)
            catalogue.apply_check_bounds(feed.pk, given, now)
            if "full_content" in given:
                supplements.switch_articles(feed.pk, now)
            feed_rows.touch_feeds([feed.pk], now)
        if rules is not None:
            filters.replace_filters(feed.pk, rules)
        if paused is not None:
            (lifecycle.pause_feeds if paused else lifecycle.resume_feeds)([feed.pk], now)
        if hidden is not None:
            (lifecycle.hide_feeds if hidden else lifecycle.show_feeds)([feed.pk], now)
    return read.description_for(request, read.find_feed(slug))


@router.delete("/feeds/{slug}", response=Done, summary="Remove a feed", **_with_token(404))
def remove_feed(request: HttpRequest, slug: FeedSlug) -> Done:
    """Removes a feed, with all of its entries."""
    token = read.require_manage_token(request)
    lifecycle.remove_feeds([read.find_feed(slug).pk], datetime.now(UTC))
    _log.info("feed removed", extra={"token": token.name, "feed": slug})
    return Done(slug=slug, detail="It is no longer fetched or served.")


@router.post("/feeds/{slug}/fetch", response={202: Done}, summary="Fetch a feed now", **_with_token(404, 409))
def fetch_feed(request: HttpRequest, slug: FeedSlug) -> Status[Done]:
    """Flags a feed: it is fetched before those that are only due, at its server's next turn."""
    read.require_manage_token(request)
    if not feed_rows.flag_feeds([read.find_feed(slug).pk], datetime.now(UTC)):
        raise Problem(409, "The feed is paused. Resume it first.")
    return Status(202, Done(slug=slug, detail="It is fetched with the next scan, which begins now."))


@router.put("/feeds/{slug}/follow", response=Done, summary="Follow a feed", **_with_token(404))
def follow_feed(request: HttpRequest, slug: FeedSlug) -> Done:
    """The token's user follows the feed."""
    user_id = read.require_user(request)
    followers.follow_feeds(user_id, [read.find_readable_feed(request, slug).pk], datetime.now(UTC))
    return Done(slug=slug, detail="It is followed.")


@router.delete("/feeds/{slug}/follow", response=Done, summary="Unfollow a feed", **_with_token(404))
def unfollow_feed(request: HttpRequest, slug: FeedSlug) -> Done:
    """The token's user no longer follows the feed."""
    user_id = read.require_user(request)
    followers.unfollow_feeds(user_id, [read.find_feed(slug).pk])
    return Done(slug=slug, detail="It is not followed.")
