"""The system check of the hub's address, before anything is served."""

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error

from .parser import markup
from .push.websub import OWN_HUB


def check_hub(app_configs: Sequence[Any] | None, **_: Any) -> list[CheckMessage]:
    """Checks FEEDS_HUB: empty, this site itself, or an address that can stand in a header field."""
    hub, most = settings.FEEDS_HUB, 2000
    if hub in {"", OWN_HUB} or (
        hub.isascii() and not set(hub) & set('<>"\\') and markup.absolute_url("", hub, most) == hub
    ):
        return []
    return [Error("FEEDS_HUB must be self, none, or a hub's address, as https://hub.example/.", id="feeds.E001")]
