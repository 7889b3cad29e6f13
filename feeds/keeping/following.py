"""Who follows which feeds, and how many subscribers that makes: followers, and readers of the feed's own output."""

from collections.abc import Collection
from datetime import datetime

from django.db import transaction
from django.db.models import Count, F, IntegerField, OuterRef, Subquery
from django.db.models.functions import Coalesce

from ..models import Feed, Follow
from . import locking

TURNS = 1440
"""Followers of each feed are counted anew once in so many passes of a minute: users may be deleted."""


def follow(user_id: int, feed_ids: Collection[int], now: datetime) -> int:
    """The user follows these feeds from now on. How many were not followed before; those that are gone are not."""
    with transaction.atomic():
        there = set(Feed.objects.filter(pk__in=feed_ids).values_list("pk", flat=True))
        before = set(Follow.objects.filter(user_id=user_id, feed_id__in=there).values_list("feed_id", flat=True))
        rows = [Follow(user_id=user_id, feed_id=feed_id, since=now) for feed_id in sorted(there - before)]
        Follow.objects.bulk_create(rows, ignore_conflicts=True)  # somebody may do the same at the same time
        recount([row.feed_id for row in rows])
    return len(rows)


def unfollow(user_id: int, feed_ids: Collection[int]) -> int:
    """The user follows these feeds no more. How many were followed."""
    with transaction.atomic():
        number, _ = Follow.objects.filter(user_id=user_id, feed_id__in=feed_ids).delete()
        recount(feed_ids)
    return number


def recount(feed_ids: Collection[int]) -> None:
    """Counts the subscribers of these feeds anew, with the readers that are known."""
    of_feed = Follow.objects.filter(feed_id=OuterRef("pk")).order_by().values("feed_id")
    followers = Subquery(of_feed.annotate(number=Count("pk")).values("number"), output_field=IntegerField())
    with transaction.atomic():
        locked = locking.lock(Feed.objects.filter(pk__in=feed_ids))
        Feed.objects.filter(pk__in=locked).update(subscriber_count=F("reader_count") + Coalesce(followers, 0))


def recount_in_turn(now: datetime) -> int:
    """The same of feeds whose turn it is, for one pass of a minute. How many. Raises DatabaseError."""
    turn = int(now.timestamp() // 60) % TURNS
    found = Feed.objects.filter(subscriber_count__gt=0).annotate(turn=F("pk") % TURNS).filter(turn=turn)
    ids = list(found.order_by().values_list("pk", flat=True))
    recount(ids)
    return len(ids)
