"""What a feed's server wants to be shown: user, password, header fields. Sealed in the database."""

import json
from base64 import b64encode
from collections.abc import Mapping
from typing import cast

from django.db.models import Q

from resources.fetching.errors import UnreadableSealError
from resources.fetching.keeping import sealing

from ..models import Feed, Move
from ..subscriptions import Subscription

SEALED = ("sealed_password", "sealed_headers")
"""The fields that hold secrets."""


def sealed_password(password: str) -> str:
    """As the database keeps it; empty for none."""
    return sealing.seal(password) if password else ""


def sealed_headers(headers: Mapping[str, str]) -> str:
    """As the database keeps them; empty for none."""
    return sealing.seal(json.dumps(dict(headers))) if headers else ""


def is_private(feed: Feed) -> bool:
    """Whether its server is shown anything: what it answers then may be for nobody else."""
    return bool(feed.user or feed.sealed_password or feed.sealed_headers)


def password_of(feed: Feed) -> str:
    """Raises UnreadableSealError: the key that sealed it is gone."""
    return unsealed(feed.sealed_password)


def unsealed(sealed: str) -> str:
    """What `sealed_password` sealed. Raises UnreadableSealError."""
    return sealing.unseal(sealed) if sealed else ""


def headers_of(feed: Feed) -> dict[str, str]:
    """Its own header fields. Raises UnreadableSealError."""
    found: dict[str, str] = json.loads(sealing.unseal(feed.sealed_headers)) if feed.sealed_headers else {}
    return found


def shown_to_server(feed: Feed) -> dict[str, str]:
    """All header fields that its requests carry: its own, and Basic authentication (RFC 7617) in UTF-8.

    Raises UnreadableSealError.
    """
    fields = headers_of(feed)
    if feed.user:
        pair = b64encode(f"{feed.user}:{password_of(feed)}".encode()).decode()
        fields = {name: value for name, value in fields.items() if name.lower() != "authorization"}
        fields["Authorization"] = f"Basic {pair}"
    return fields


def reseal() -> None:
    """Seals with the first key what was sealed with a fallback, also what feeds have left behind where they were.

    What no key opens stays as it is. Raises DatabaseError.
    """
    for feed in Feed.objects.exclude(Q(sealed_password="") & Q(sealed_headers="")).only(*SEALED).iterator():
        for name in SEALED:
            before = getattr(feed, name)
            after = _resealed(before)
            if after != before:  # unless an admin has set another meanwhile
                Feed.objects.filter(pk=feed.pk, **{name: before}).update(**{name: after})
    for move in Move.objects.exclude(left_behind={}).only("left_behind").iterator():
        kept = cast(dict[str, str], move.left_behind)
        again = {name: _resealed(value) if name in SEALED else value for name, value in kept.items()}
        if again != kept:
            Move.objects.filter(pk=move.pk).update(left_behind=again)
    for pk, before in Subscription.objects.exclude(sealed_secret="").values_list("pk", "sealed_secret"):
        after = _resealed(before)
        if after != before:
            Subscription.objects.filter(pk=pk, sealed_secret=before).update(sealed_secret=after)


def _resealed(sealed: str) -> str:
    try:
        return sealing.resealed(sealed) if sealed else sealed
    except UnreadableSealError:
        return sealed
