"""Makes one feed of several that are the same: entries, followers and categories of all are kept."""

from collections.abc import Collection
from datetime import UTC, datetime, timedelta

from django.db import transaction
from django.db.models import Exists, OuterRef

from ..models import Entry, Feed, Follow, Move
from . import aliases, following, pausing, versions


def merge(kept_id: int, merged_ids: Collection[int], now: datetime) -> int:
    """Moves what the others have to the one that is kept, and deletes them. How many there were.

    An entry, or a follower, that both have is kept once, also where an entry has another id in each: publishers
    number those of RSS and Atom differently. This cannot be taken back.
    """
    others = [feed_id for feed_id in merged_ids if feed_id != kept_id]
    with transaction.atomic():
        found = Feed.objects.select_for_update().filter(pk__in=[kept_id, *others]).order_by("pk")
        rows = {feed.pk: feed for feed in found}
        if kept_id not in rows or len(rows) < 2:
            return 0
        leave = rows[kept_id].paused  # with the one that is kept, all are in no combination any more
        (versions.withdraw if leave else versions.touch)(list(rows), now)  # while they are still in their categories
        for other_id in others:
            if other_id in rows:
                _take_over(kept_id, other_id)
        if any(feed.is_hidden for feed in rows.values()):  # entries of one that is hidden are not for everybody
            pausing.hide([kept_id], now)
        _compare_anew(rows[kept_id])
        if any(rows[pk].flagged_at for pk in others if pk in rows):  # what they were told of is fetched all the same
            Feed.objects.filter(pk=kept_id).update(flagged_at=now)
        following.recount([kept_id])
        versions.touch([kept_id], now)
        return Feed.objects.filter(pk__in=[pk for pk in others if pk in rows]).delete()[1].get("feeds.Feed", 0)


def _compare_anew(kept: Feed) -> None:
    """What is being read just now was compared with entries that are not all: it is not stored before it was again."""
    began_at = kept.fetch_began_at or datetime.fromtimestamp(0, UTC)
    Feed.objects.filter(pk=kept.pk).update(fetch_began_at=began_at + timedelta(microseconds=1))


def _take_over(kept_id: int, other_id: int) -> None:
    """What both have is left with the other one, and goes with it."""
    known = set(Entry.objects.filter(feed_id=kept_id).order_by().values_list("identity", flat=True))
    known |= set(Entry.objects.filter(feed_id=kept_id).order_by().values_list("likeness", flat=True))
    entries = Entry.objects.filter(feed_id=other_id).values_list("pk", "identity", "likeness")
    more = [pk for pk, identity, likeness in entries if known.isdisjoint((identity, likeness))]
    Entry.objects.filter(pk__in=more).update(feed_id=kept_id)
    has_follower = Follow.objects.filter(feed_id=kept_id, user_id=OuterRef("user_id"))
    Follow.objects.filter(~Exists(has_follower), feed_id=other_id).update(feed_id=kept_id)
    Move.objects.filter(feed_id=other_id).update(feed_id=kept_id)
    aliases.take_over(kept_id, other_id)
    link = Feed.categories.through
    found = link._default_manager.filter(feed_id=other_id).values_list("category_id", flat=True)
    rows = [link(feed_id=kept_id, category_id=category_id) for category_id in found]
    link._default_manager.bulk_create(rows, ignore_conflicts=True)
