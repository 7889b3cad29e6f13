"""Other addresses for feeds, by what their servers say or by what people do; each can be taken back."""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import cast

from django.db import IntegrityError, transaction

from .. import addresses
from ..addresses import Address
from ..errors import AddressError, MoveError
from ..models import Feed, Move
from . import places, versions

KEPT_BACK = ("user", "sealed_password", "sealed_headers")
"""What is shown to the server that it was meant for and to no other."""


def move(feed_id: int, new_url: str, why: str, now: datetime) -> bool:
    """The feed is at that address from now on, where it was read just now. `why` is a sentence.

    User, password and headers stay behind when it is another server's. False, and nothing changed: it is there
    already or is gone, another feed is there, or it is no address.
    """
    try:
        _relocate(feed_id, addresses.read(new_url).url, why, {}, now)
    except (MoveError, AddressError):
        return False
    return True


def relocate(
    feed_id: int, new_url: str, why: str, now: datetime, more: Mapping[str, object] = MappingProxyType({})
) -> Move:
    """The same for people, with other fields that change, and fetched at once. Raises MoveError and AddressError."""
    return _relocate(feed_id, addresses.read(new_url).url, why, {**_due(why, now), **more}, now)


def _relocate(feed_id: int, new_url: str, why: str, more: Mapping[str, object], now: datetime) -> Move:
    with transaction.atomic():
        feed = Feed.objects.select_for_update().filter(pk=feed_id).first()
        if feed is None:
            raise MoveError("This feed is gone.")
        if feed.url == new_url:
            raise MoveError("The feed is at that address already.")
        kept_back = () if places.may_take_along(feed.url, new_url) else KEPT_BACK
        left = {name: getattr(feed, name) for name in kept_back}
        put(feed, places.moved(feed, new_url), {**dict.fromkeys(left, ""), **more}, now)
        left = left if any(left.values()) else {}
        return Move.objects.create(
            feed=feed, moved_at=now, old_url=feed.url, new_url=new_url, why=why, left_behind=left
        )


def undo(move_id: int, now: datetime) -> bool:
    """Brings the feed back to where it was before, with what it was shown there; it does not go there again by itself.

    False, and nothing changed: that was done before, or the feed has been moved on since. Raises MoveError.
    """
    with transaction.atomic():
        done = Move.objects.select_for_update().select_related("feed").filter(pk=move_id, undone_at=None).first()
        if done is None or done.feed.url != done.new_url:
            return False
        feed, left = done.feed, cast(dict[str, str], done.left_behind)
        if not places.may_take_along(done.new_url, done.old_url):  # what it is shown there is for nobody else
            left = {**dict.fromkeys(KEPT_BACK, ""), **left}
        user = left.get("user", feed.user)
        refused = [*(url for url in feed.refused_moves if url != done.new_url), done.new_url]
        why = f"It was brought back from {done.new_url}. It is fetched at once."
        put(feed, Address(done.old_url, user), {**left, **_due(why, now), "refused_moves": refused}, now)
        Move.objects.filter(pk=done.pk).update(undone_at=now)
    return True


def _due(why: str, now: datetime) -> dict[str, object]:
    return {"next_check_at": now, "handed_over_at": None, "reason": why}


def put(feed: Feed, address: Address, more: Mapping[str, object], now: datetime) -> None:
    """Puts the feed there, with other fields that change. Remembers nothing. Raises MoveError."""
    there = Feed.objects.filter(key_digest=address.key_digest).exclude(pk=feed.pk).first()
    if there is not None:
        raise MoveError(f"There is another feed at {address.url}: “{there.slug}”. Merge the two.")
    fields = {**places.fields_of(address), "moving": {}, **more}
    try:
        with transaction.atomic():
            Feed.objects.filter(pk=feed.pk).update(**fields)
    except IntegrityError as error:  # it was added just now
        raise MoveError(f"There is another feed at {address.url}. Merge the two.") from error
    versions.touch([feed.pk], now)
