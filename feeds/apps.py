"""The Django app of feeds, and its system check: of the hub's address, before anything is served."""

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, register

from .parser import markup


class FeedsConfig(AppConfig):
    name = "feeds"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        register(check_hub)


def check_hub(app_configs: Sequence[Any] | None, **_: Any) -> list[CheckMessage]:
    """Checks FEEDS_HUB: empty, or an address that can stand in a header field."""
    hub, most = settings.FEEDS_HUB, 2000
    if not hub or (hub.isascii() and not set(hub) & set('<>"\\') and markup.absolute_url("", hub, most) == hub):
        return []
    return [Error("FEEDS_HUB must be the address of a hub, as https://hub.example/: it is not.", id="feeds.E001")]
