"""Adding, changing, fetching, removing and following feeds: with a token that may."""

import logging
from datetime import UTC, datetime
from typing import Annotated

from django.db import transaction
from django.http import HttpRequest
from ninja import Schema, Status
from pydantic import ConfigDict, Field

from feeds import addresses, encoding
from feeds.errors import AddressError, FeedError
from feeds.keeping import adding, editing, flagging, following, pausing, versions
from feeds.models import LEAST_INTERVAL_SECONDS, MOST_INTERVAL_SECONDS, Feed
from resources.api import problems, tokens
from resources.api.problems import Problem

from .described import FeedDescribed
from .reading import one_described
from .routing import Slug, find_feed, find_readable, require_managing, require_user, router

MOST_CATEGORIES, MOST_DEPTH = 20, 10
Title = Annotated[str, Field(max_length=500)]
Interval = Annotated[int, Field(ge=LEAST_INTERVAL_SECONDS, le=MOST_INTERVAL_SECONDS)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Category = Annotated[list[Name], Field(min_length=1, max_length=MOST_DEPTH)]

_log = logging.getLogger("tarry.api")


class ToAdd(Schema):
    """A feed, or a page that announces one. It is fetched at once; what comes then says which."""

    model_config = ConfigDict(extra="forbid", strict=True)

    url: str = Field(max_length=2000, examples=["https://blog.example/"])
    title: Title = Field(default="", description="Empty: as the feed calls itself.")
    categories: list[Category] = Field(
        default_factory=list,
        max_length=MOST_CATEGORIES,
        description="Each with those around it, the outermost first. They are made where they are missing.",
        examples=[[["News", "Technology"]]],
    )


class ToChange(Schema):
    """What is left out stays as it is; null takes a bound back to the site's own."""

    model_config = ConfigDict(extra="forbid", strict=True)

    title: Title | None = None
    paused: bool | None = None
    hidden: bool | None = Field(default=None, description="Whether it is kept out of what is public.")
    least_seconds: Interval | None = Field(default=None, description="The least time between two checks.")
    most_seconds: Interval | None = Field(default=None, description="The most time between two checks.")


class Done(Schema):
    slug: str
    detail: str


@router.post(
    "/feeds",
    auth=tokens.Token(),
    response={200: FeedDescribed, 201: FeedDescribed},
    operation_id="add_feed",
    summary="Add a feed",
    openapi_extra=problems.described(400, 401, 403, 422, 429, 503),
)
def add_feed(request: HttpRequest, wanted: ToAdd) -> Status[FeedDescribed]:
    """Adds the feed at an address, or at that which the page there announces: 201. 200 when it was there."""
    token = require_managing(request)
    now = datetime.now(UTC)
    try:
        address = addresses.read(wanted.url)
        paths = [tuple(path) for path in wanted.categories]
        feed, is_new = adding.add(address, title=wanted.title, categories=paths, now=now)
    except AddressError as error:
        raise Problem(422, f"url: {error}") from error
    except FeedError as error:
        raise Problem(503, str(error), 1) from error
    if is_new:  # one that was there and is in more categories now was touched with them
        versions.touch([feed.pk], now)
        flagging.flag([feed.pk], now)
        _log.info("feed added", extra={"token": token.name, "feed": feed.slug})
    return Status(201 if is_new else 200, one_described(request, feed))


@router.patch(
    "/feeds/{slug}",
    auth=tokens.Token(),
    response=FeedDescribed,
    operation_id="change_feed",
    summary="Change a feed",
    openapi_extra=problems.described(400, 401, 403, 404, 422, 429, 503),
)
def change_feed(request: HttpRequest, slug: Slug, wanted: ToChange) -> FeedDescribed:
    """Changes how a feed is called, how often it is checked, whether it is fetched at all, and whether it is public."""
    require_managing(request)
    feed, now = find_feed(slug), datetime.now(UTC)
    given = wanted.dict(exclude_unset=True)
    paused, hidden = given.pop("paused", None), given.pop("hidden", None)
    if "title" in given:
        given["title"] = encoding.clean(given["title"] or "")
    least = given.get("least_seconds", feed.least_seconds)
    most = given.get("most_seconds", feed.most_seconds)
    if least and most and least > most:
        raise Problem(422, "least_seconds: the least time between two checks is above the most.")
    with transaction.atomic():
        if given:
            Feed.objects.filter(pk=feed.pk).update(**given)
            editing.keep_bounds(feed.pk, given, now)
            versions.touch([feed.pk], now)
        if paused is not None:
            (pausing.pause if paused else pausing.resume)([feed.pk], now)
        if hidden is not None:
            (pausing.hide if hidden else pausing.show)([feed.pk], now)
    return one_described(request, find_feed(slug))


@router.delete(
    "/feeds/{slug}",
    auth=tokens.Token(),
    response=Done,
    operation_id="remove_feed",
    summary="Remove a feed",
    openapi_extra=problems.described(401, 403, 404, 422, 429, 503),
)
def remove_feed(request: HttpRequest, slug: Slug) -> Done:
    """Removes a feed, with all that is kept of it."""
    token = require_managing(request)
    pausing.remove([find_feed(slug).pk], datetime.now(UTC))
    _log.info("feed removed", extra={"token": token.name, "feed": slug})
    return Done(slug=slug, detail="It is fetched and served no more.")


@router.post(
    "/feeds/{slug}/fetch",
    auth=tokens.Token(),
    response={202: Done},
    operation_id="fetch_feed",
    summary="Fetch a feed now",
    openapi_extra=problems.described(401, 403, 404, 409, 422, 429, 503),
)
def fetch_feed(request: HttpRequest, slug: Slug) -> Status[Done]:
    """Has a feed fetched before those that are only due, as soon as its server's turn comes."""
    require_managing(request)
    if not flagging.flag([find_feed(slug).pk], datetime.now(UTC)):
        raise Problem(409, "It is paused. Resume it first.")
    return Status(202, Done(slug=slug, detail="It is fetched with the next scan, which begins now."))


@router.put(
    "/feeds/{slug}/follow",
    auth=tokens.Token(),
    response=Done,
    operation_id="follow_feed",
    summary="Follow a feed",
    openapi_extra=problems.described(401, 403, 404, 422, 429, 503),
)
def follow_feed(request: HttpRequest, slug: Slug) -> Done:
    """The user whose token it is follows the feed."""
    user_id = require_user(request)
    following.follow(user_id, [find_readable(request, slug).pk], datetime.now(UTC))
    return Done(slug=slug, detail="It is followed.")


@router.delete(
    "/feeds/{slug}/follow",
    auth=tokens.Token(),
    response=Done,
    operation_id="unfollow_feed",
    summary="Unfollow a feed",
    openapi_extra=problems.described(401, 403, 404, 422, 429, 503),
)
def unfollow_feed(request: HttpRequest, slug: Slug) -> Done:
    """The user whose token it is follows the feed no more."""
    user_id = require_user(request)
    following.unfollow(user_id, [find_feed(slug).pk])
    return Done(slug=slug, detail="It is not followed.")
