"""Credentials that a feed's server gets: user, password, header fields. Sealed in the database."""

import json
from base64 import b64encode
from collections.abc import Mapping
from typing import cast

from resources.fetch import host_settings
from resources.fetch.http.messages import UnreadableSealError

from .change_rows import Webhook
from .hub_models import Subscriber, Subscription
from .models import Feed, Move

SEALED_FIELDS = ("sealed_password", "sealed_headers")
CREDENTIAL_FIELDS = ("user", *SEALED_FIELDS)


def seal_password(password: str) -> str:
    """Returns the password as the database keeps it; empty for none."""
    return host_settings.seal_value(password) if password else ""


def seal_headers(headers: Mapping[str, str]) -> str:
    """Returns the header fields as the database keeps them; empty for none."""
    return host_settings.seal_value(json.dumps(dict(headers))) if headers else ""


def is_private(feed: Feed) -> bool:
    """True if the server gets credentials: its answers may then be for no other reader."""
    return any(getattr(feed, name) for name in CREDENTIAL_FIELDS)


def unseal_password(feed: Feed) -> str:
    """Raises UnreadableSealError if the key that sealed it is gone."""
    return unseal_secret(feed.sealed_password)


def unseal_secret(sealed: str) -> str:
    """Opens a sealed password or secret. Raises UnreadableSealError."""
    return host_settings.unseal_value(sealed) if sealed else ""


def unseal_headers(feed: Feed) -> dict[str, str]:
    """Returns the feed's own header fields. Raises UnreadableSealError."""
    found: dict[str, str] = json.loads(host_settings.unseal_value(feed.sealed_headers)) if feed.sealed_headers else {}
    return found


def request_headers(feed: Feed) -> dict[str, str]:
    """Returns all credentials of a request: the feed's header fields, and Basic authentication (RFC 7617) in UTF-8.

    Raises UnreadableSealError.
    """
    fields = unseal_headers(feed)
    if feed.user:
        pair = b64encode(f"{feed.user}:{unseal_password(feed)}".encode()).decode()
        fields = {name: value for name, value in fields.items() if name.lower() != "authorization"}
        fields["Authorization"] = f"Basic {pair}"
    return fields


def reseal_all() -> None:
    """Seals with the first key all secrets that a fallback key sealed, also those kept by moves.

    Secrets that no key opens stay as they are. Raises DatabaseError.
    """
    of_hubs = ((Subscription, "sealed_secret"), (Subscriber, "sealed_secret"), (Subscriber, "asked_secret"))
    for model, name in (*((Feed, name) for name in SEALED_FIELDS), *of_hubs, (Webhook, "sealed_secret")):
        for pk, before in model._default_manager.exclude(**{name: ""}).values_list("pk", name).iterator():
            after = _reseal(before)
            if after != before:  # unless an admin or a renewal has set another one meanwhile
                model._default_manager.filter(pk=pk, **{name: before}).update(**{name: after})
    for move in Move.objects.exclude(left_behind={}).only("left_behind").iterator():
        kept = cast(dict[str, str], move.left_behind)
        again = {name: _reseal(value) if name in SEALED_FIELDS else value for name, value in kept.items()}
        if again != kept:
            Move.objects.filter(pk=move.pk).update(left_behind=again)


def _reseal(sealed: str) -> str:
    try:
        return host_settings.reseal_value(sealed) if sealed else sealed
    except UnreadableSealError:
        return sealed
