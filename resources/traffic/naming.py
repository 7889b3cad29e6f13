"""Which content an address names: asks the function that TRAFFIC has for the beginning of the address."""

import logging
from collections.abc import Mapping
from functools import lru_cache

from django.conf import settings
from django.utils.module_loading import import_string

from .asked import Asked
from .tallying import Name

_log = logging.getLogger("tarry.traffic")


def name(address: str) -> Asked | None:
    """What the address asks for; None when nobody knows it."""
    for beginning, naming in namers(tuple(settings.TRAFFIC.items())):
        if address.startswith(beginning):
            return _named(naming, address)
    return None


@lru_cache(maxsize=4)  # tests change the setting
def namers(traffic: tuple[tuple[str, str], ...]) -> list[tuple[str, Name]]:
    """The functions by the beginnings of their addresses, the longest first. Raises ImportError."""
    found: Mapping[str, Name] = {beginning: import_string(path) for beginning, path in traffic}
    return sorted(found.items(), key=lambda item: -len(item[0]))


def _named(naming: Name, address: str) -> Asked | None:
    try:
        return naming(address)
    except Exception:  # noqa: BLE001  an app's own function: one odd address must not stop the count for good
        _log.exception("could not name", extra={"address": address[:200]})
        return None
