"""What people change in a feed that is there: its address, what its server is shown, how it is called, how often."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from ..addresses import Address
from ..deciding.standing import State
from ..models import Feed
from . import aliases, credentials, moves, pausing, places, versions

MOVED = "It was given another address. It is fetched at once."
SHOWN = "What its server is shown was changed. It is fetched at once."
BOUNDED = "The times between two checks were changed: it is checked within them."
_NO_VALIDATORS = {"etag": "", "last_modified": "", "validated_url": "", "body_digest": ""}


@dataclass(frozen=True, slots=True)
class Edit:
    """How a feed is to be. Without a password the one that is stored stays, for as long as there is a user.

    `headers`: None for those that are stored. `fields` are others of the row, as they are.
    """

    address: Address
    headers: Mapping[str, str] | None
    fields: Mapping[str, object]


def edit(feed_id: int, wanted: Edit, now: datetime) -> bool:
    """Changes the feed; whether it is asked otherwise from now on, and therefore fetched at once.

    Another address is a move that can be taken back. One whose server is shown secrets from now on is hidden, unless
    `fields` say otherwise. Raises MoveError, and Feed.DoesNotExist.
    """
    with transaction.atomic():
        feed = Feed.objects.select_for_update().get(pk=feed_id)
        moves_on = wanted.address.url != feed.url
        if moves_on:
            moves.relocate(feed_id, wanted.address.url, MOVED, now)
            feed.refresh_from_db()
        shown = _shown(feed, wanted)
        if shown:
            due = {"next_check_at": now, "handed_over_at": None, "reason": MOVED if moves_on else SHOWN}
            place = Address(feed.url, wanted.address.user)
            moves.put(feed, place, {**shown, **_NO_VALIDATORS, **due}, now)
        if wanted.fields.get("slug", feed.slug) != feed.slug:
            aliases.remember([feed.slug], feed_id)
        fields = dict(wanted.fields)
        becomes_private = not credentials.is_private(feed) and _gives_secrets(shown)
        is_hidden = bool(fields.pop("is_hidden", feed.is_hidden or becomes_private))
        Feed.objects.filter(pk=feed_id).update(**fields)
        if not moves_on and not shown:
            keep_bounds(feed_id, fields, now)
        versions.touch([feed_id], now)
        (pausing.hide if is_hidden else pausing.show)([feed_id], now)
    return moves_on or bool(shown)


def keep_bounds(feed_id: int, changed: Mapping[str, object], now: datetime) -> None:
    """Has the next check be within the bounds of a feed whose fields were changed. Failures wait as they are to."""
    if not {"least_seconds", "most_seconds"} & changed.keys():
        return
    feed = Feed.objects.filter(pk=feed_id, state=State.ACTIVE.value, checked_at__isnull=False).first()
    if feed is None or feed.checked_at is None:
        return
    at = min(max(feed.next_check_at, feed.checked_at + feed.least), feed.checked_at + feed.most)
    if at != feed.next_check_at:
        Feed.objects.filter(pk=feed_id).update(next_check_at=max(at, now), reason=BOUNDED)


def _gives_secrets(shown: Mapping[str, str]) -> bool:
    return any(shown.get(name) for name in ("user", *credentials.SEALED))


def _shown(feed: Feed, wanted: Edit) -> dict[str, str]:
    """What changes of what the server is shown."""
    address, fields = wanted.address, {}
    if address.user != feed.user:
        fields = places.fields_of(Address(feed.url, address.user))
        if not address.user:
            fields["sealed_password"] = ""
    if address.password:
        fields["sealed_password"] = credentials.sealed_password(address.password)
    if wanted.headers is not None and (wanted.headers or feed.sealed_headers):
        fields["sealed_headers"] = credentials.sealed_headers(wanted.headers)
    return fields
