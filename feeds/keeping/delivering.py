"""Stores what hubs have delivered of a feed: its entries. Nothing else of it counts, as if it had not been asked for.

Hubs may leave out what has not changed (WebSub, 7), and what else stands in a document may be theirs: nothing leaves
the feed, and what it says of itself and its next check stay as they are.
"""

import random
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F, Value
from django.db.models.functions import Greatest

from ..models import Feed
from ..readings import Reading
from . import storing, trust, versions
from .storing import Kept, Stored

UNKNOWN = {"etag": "", "last_modified": "", "body_digest": ""}
"""The origin is to be asked for all of it the next time: what it said last is not what is kept now."""


def store(feed: Feed, kept: Kept, reading: Reading, received_at: datetime, now: datetime, *, is_last: bool) -> Stored:
    """Stores what was received then, for a feed as it was read, with its entries, before. Raises DatabaseError.

    The feed is in hand until the last of what was delivered is stored.
    """
    with storing.turn(), transaction.atomic():
        if (missed := storing.missed_turn(feed, received_at, now)) is not None:
            return missed
        storing.store_entries(feed, kept, reading, now, is_whole=False)
        news, changed = storing.has_news(feed, reading), bool(reading.rows)
        reliance = trust.note(feed, received_at, has_news=news, has_changed=changed)
        fields: dict[str, Any] = {**storing.taken_up(received_at), "is_pushed": reliance.is_relied_on}
        fields["delivered"] = Greatest(F("delivered") - 1, Value(0))  # one may wait that was not counted yet
        if feed.is_pushed and not reliance.is_relied_on:
            fields |= trust.tightened(now, random.random())
        if not is_last:
            del fields["handed_over_at"]
        if reading.rows:
            fields |= {"changed_at": now, "version": versions.raised(now), **UNKNOWN}
        Feed.objects.filter(pk=feed.pk).update(**fields)
        if reading.rows:
            versions.touch_combinations([feed.pk], now)
    return Stored.STORED
