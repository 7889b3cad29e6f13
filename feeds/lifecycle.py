"""Pauses, hides, moves, merges and removes feeds.

Paused and hidden feeds are in no combination until people change that. Each move, by a redirect or by people, can
be undone; the credentials of a server stay behind when the feed moves to another one. A merge cannot be undone.
"""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import cast

from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef

from resources.fetch.http import url_syntax
from resources.fetch.http.limit_scopes import url_scopes

from . import addresses, feed_rows, followers, versions
from .addresses import FeedLocation
from .change_rows import Webhook
from .changes import numbers
from .credentials import CREDENTIAL_FIELDS
from .errors import FeedAddressError, MoveError
from .models import Entry, Feed, Follow, Move


def address_fields(address: FeedLocation) -> dict[str, str]:
    host = url_scopes(address.url).host
    return {"url": address.url, "user": address.user, "key_digest": address.key_digest, "host": host}


def address_after_move(feed: Feed, url: str) -> FeedLocation:
    """The feed's address at another URL: the user moves along only to the same server."""
    return FeedLocation(url, feed.user if may_keep_credentials(feed.url, url) else "")


def may_keep_credentials(old_url: str, new_url: str) -> bool:
    """True if the new address may get the old one's credentials: the same server, and not less secure."""
    old, new = url_syntax.parse_target(old_url), url_syntax.parse_target(new_url)
    return old.origin == new.origin or (
        old.host == new.host and (old.scheme, old.port, new.scheme, new.port) == ("http", 80, "https", 443)
    )


def try_move_feed(feed_id: int, new_url: str, why: str, now: datetime) -> bool:
    """Moves the feed to that address, where it has just been read. `why` is a sentence.

    User, password and headers are removed if the server is another one. Returns False, and changes nothing, if the feed
    is there already or is gone, another feed is there, or the address is none.
    """
    try:
        _move_feed(feed_id, addresses.read_address(new_url).url, why, {}, now)
    except (MoveError, FeedAddressError):
        return False
    return True


def relocate_feed(
    feed_id: int, new_url: str, why: str, now: datetime, more: Mapping[str, object] = MappingProxyType({})
) -> Move:
    """Moves a feed for people, changes other fields, makes it due at once. Raises MoveError and FeedAddressError."""
    return _move_feed(feed_id, addresses.read_address(new_url).url, why, {**due_now_fields(why, now), **more}, now)


def _move_feed(feed_id: int, new_url: str, why: str, more: Mapping[str, object], now: datetime) -> Move:
    with transaction.atomic():
        feed = Feed.objects.select_for_update().filter(pk=feed_id).first()
        if feed is None:
            raise MoveError("This feed no longer exists.")
        if feed.url == new_url:
            raise MoveError("The feed has that address already.")
        kept_back = () if may_keep_credentials(feed.url, new_url) else CREDENTIAL_FIELDS
        left = {name: getattr(feed, name) for name in kept_back}
        place_feed(feed, address_after_move(feed, new_url), {**dict.fromkeys(left, ""), **more}, now)
        left = left if any(left.values()) else {}
        moved = {"old_url": feed.url, "new_url": new_url, "moved_at": now, "why": why}
        return Move.objects.create(feed=feed, left_behind=left, **moved)


def undo_move(move_id: int, now: datetime) -> bool:
    """Moves the feed back, with its old credentials; a redirect does not move it there again.

    Returns False, and changes nothing, if the move was undone before or the feed has moved on. Raises MoveError.
    """
    with transaction.atomic():
        done = Move.objects.select_for_update().select_related("feed").filter(pk=move_id, undone_at=None).first()
        if done is None or done.feed.url != done.new_url:
            return False
        feed, left = done.feed, cast(dict[str, str], done.left_behind)
        if not may_keep_credentials(done.new_url, done.old_url):  # credentials of that server are for no other one
            left = {**dict.fromkeys(CREDENTIAL_FIELDS, ""), **left}
        user = left.get("user", feed.user)
        refused = [*(url for url in feed.refused_moves if url != done.new_url), done.new_url]
        why = f"Previous address restored, instead of {done.new_url}. Checked at once."
        fields = {**left, **due_now_fields(why, now), "refused_moves": refused}
        place_feed(feed, FeedLocation(done.old_url, user), fields, now)
        Move.objects.filter(pk=done.pk).update(undone_at=now)
    return True


def due_now_fields(why: str, now: datetime) -> dict[str, object]:
    return {"next_check_at": now, "handed_over_at": None, "reason": why}


def place_feed(feed: Feed, address: FeedLocation, more: Mapping[str, object], now: datetime) -> None:
    """Gives the feed that address, and changes other fields. Records no move. Raises MoveError."""
    there = Feed.objects.filter(key_digest=address.key_digest).exclude(pk=feed.pk).first()
    if there is not None:
        raise MoveError(f"Another feed has the address {address.url}: “{there.slug}”. Merge the two.")
    fields = {**address_fields(address), "moving": {}, **more}
    try:
        with transaction.atomic():
            Feed.objects.filter(pk=feed.pk).update(**fields)
    except IntegrityError as error:  # it was added just now
        raise MoveError(f"Another feed has the address {address.url}. Merge the two.") from error
    feed_rows.touch_feeds([feed.pk], now)


FEEDS_PER_DELETION = 20
"""Feeds that one transaction deletes: each may have thousands of entries."""


def pause_feeds(feed_ids: Collection[int], now: datetime) -> int:
    """Stops fetching these feeds. Returns how many were fetched before. A fetch that runs now is still stored."""
    return _set_field(feed_ids, now, paused=True)


def resume_feeds(feed_ids: Collection[int], now: datetime) -> int:
    """Fetches these feeds again; overdue ones at once. Returns how many were paused."""
    return _set_field(feed_ids, now, paused=False)


def hide_feeds(feed_ids: Collection[int], now: datetime) -> int:
    """Takes these feeds out of everything public; they are still fetched. Returns how many were public."""
    return _set_field(feed_ids, now, is_hidden=True)


def show_feeds(feed_ids: Collection[int], now: datetime) -> int:
    """Makes these feeds public, whatever credentials their servers get. Returns how many were hidden."""
    return _set_field(feed_ids, now, is_hidden=False)


def remove_feeds(feed_ids: Collection[int], now: datetime) -> int:
    """Deletes feeds with all their rows, some at a time. Returns how many there were."""
    ids, removed = sorted(feed_ids), 0
    for place in range(0, len(ids), FEEDS_PER_DELETION):
        part = ids[place : place + FEEDS_PER_DELETION]
        with transaction.atomic():
            versions.lock_rows(Feed.objects.filter(pk__in=part))
            feed_rows.touch_feeds(part, now, withdrawn=True)  # while they are still in their categories
            removed += Feed.objects.filter(pk__in=part).delete()[1].get(Feed._meta.label, 0)
    return removed


def _set_field(feed_ids: Collection[int], now: datetime, **field: bool) -> int:
    ((name, value),) = field.items()
    with transaction.atomic():
        changed = versions.lock_rows(Feed.objects.filter(pk__in=feed_ids, **{name: not value}))
        Feed.objects.filter(pk__in=changed).update(**field)
        feed_rows.touch_feeds(changed, now, withdrawn=value)
    return len(changed)


def merge_feeds(kept_id: int, merged_ids: Collection[int], now: datetime) -> int:
    """Merges the other feeds into the kept one and deletes them. Returns how many were deleted.

    Entries and followers of both are kept once, also an entry with another id in each feed: publishers number the
    entries of RSS and Atom differently. A merge cannot be undone.
    """
    others = [feed_id for feed_id in merged_ids if feed_id != kept_id]
    with transaction.atomic():
        found = Feed.objects.select_for_update().filter(pk__in=[kept_id, *others]).order_by("pk")
        rows = {feed.pk: feed for feed in found}
        if kept_id not in rows or len(rows) < 2:
            return 0
        others = [pk for pk in others if pk in rows]
        # All of them are still in their categories, and leave them if the kept feed is paused.
        feed_rows.touch_feeds(list(rows), now, withdrawn=rows[kept_id].paused)
        for other_id in others:
            _take_over_rows(kept_id, other_id)
        if any(feed.is_hidden for feed in rows.values()):  # entries of a hidden feed are not public
            hide_feeds([kept_id], now)
        # A fetch that runs now was compared with a part of the entries: it is compared again before it is stored.
        began_at = rows[kept_id].fetch_began_at or datetime.fromtimestamp(0, UTC)
        Feed.objects.filter(pk=kept_id).update(fetch_began_at=began_at + timedelta(microseconds=1))
        if any(rows[pk].flagged_at for pk in others):  # their flagged changes are fetched
            Feed.objects.filter(pk=kept_id).update(flagged_at=now)
        followers.recount_subscribers([kept_id])
        feed_rows.touch_feeds([kept_id], now)
        return Feed.objects.filter(pk__in=others).delete()[1].get("feeds.Feed", 0)


def _take_over_rows(kept_id: int, other_id: int) -> None:
    """Moves the other feed's rows to the kept one. Rows that both have stay with the other one, and go with it."""
    kept = Entry.objects.filter(feed_id=kept_id).order_by().values_list("identity", "likeness")
    known = {mark for marks in kept for mark in marks}
    entries = Entry.objects.filter(feed_id=other_id).values_list("pk", "identity", "likeness")
    more = [pk for pk, identity, likeness in entries if known.isdisjoint((identity, likeness))]
    moved = Entry.objects.filter(pk__in=more)
    moved.update(feed_id=kept_id)
    numbers.give_again(moved)
    Feed.objects.filter(pk=kept_id).update(judged_upto=0)  # by the filters of the kept feed
    has_follower = Follow.objects.filter(feed_id=kept_id, user_id=OuterRef("user_id"))
    Follow.objects.filter(~Exists(has_follower), feed_id=other_id).update(feed_id=kept_id)
    Move.objects.filter(feed_id=other_id).update(feed_id=kept_id)
    Webhook.objects.filter(feed_id=other_id).update(feed_id=kept_id)
    feed_rows.take_over_slugs(kept_id, other_id)
    link = Feed.categories.through
    found = link._default_manager.filter(feed_id=other_id).values_list("category_id", flat=True)
    rows = [link(feed_id=kept_id, category_id=category_id) for category_id in found]
    link._default_manager.bulk_create(rows, ignore_conflicts=True)
