"""System checks: a hub that nobody can be sent to is found before anything is served."""

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error

from feeds.parsing import addresses


def check_hub(app_configs: Sequence[Any] | None, **_: Any) -> list[CheckMessage]:
    """FEEDS_HUB: nothing, or an address that can stand in a header field."""
    hub, most = settings.FEEDS_HUB, 2000
    if not hub or (hub.isascii() and not set(hub) & set('<>"\\') and addresses.absolute("", hub, most) == hub):
        return []
    return [Error("FEEDS_HUB must be the address of a hub, as https://hub.example/: it is not.", id="feeds.E001")]
