"""The settings that mirroring reads, in the form that its other modules take them."""

from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings

DAY_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class Retention:
    """`max_bytes` of all blobs together; `keep` since the last time that somebody asked. None: no limit."""

    max_bytes: int | None = None
    keep: timedelta | None = None

    def __bool__(self) -> bool:
        return self.max_bytes is not None or self.keep is not None


def machine() -> str:
    """The name by which other machines know this one. Stable: what it holds is found by it."""
    return str(settings.MACHINE)


def attempts() -> int:
    """How often what fails for now is handed to the fetchers in all."""
    return int(settings.MIRROR_ATTEMPTS)


def retry_after(attempt: int) -> timedelta:
    """How long it rests before the next time: doubled each time, up to a day."""
    return timedelta(seconds=min(settings.MIRROR_RETRY_SECONDS * 2 ** (attempt - 1), DAY_SECONDS))


def known_seconds() -> float:
    """How long a process trusts its own memory of what is known."""
    return float(settings.MIRROR_KNOWN_SECONDS)


def rules_seconds() -> float:
    """How long a process goes on with the rules for URLs that it knows."""
    return float(settings.MIRROR_RULES_SECONDS)


def sampled_first() -> int:
    """How often a host must be found right before its validators spare a body."""
    return int(settings.MIRROR_SAMPLED_FIRST)


def sampled_every() -> int:
    """Of so many bodies that could be spared one is downloaded all the same."""
    return int(settings.MIRROR_SAMPLED_EVERY)


def settle_seconds() -> float:
    """How long after a change of the rules all processes go by it, to be sure."""
    return 2 * rules_seconds() + 10


def thumbnail_side() -> int:
    """The longest side of a thumbnail, in pixels."""
    return int(settings.THUMBNAIL_MAX_SIDE)


def thumbnail_sizes() -> frozenset[str]:
    """The sizes that there are, as `320x240`; none: all up to the longest side."""
    return frozenset(settings.THUMBNAIL_SIZES)


def thumbnail_pixels() -> int:
    """How many pixels an image has at the most that thumbnails are made of."""
    return int(settings.THUMBNAIL_MAX_PIXELS)


def thumbnail_bytes() -> int:
    """How large its file is at the most."""
    return int(settings.THUMBNAIL_MAX_BYTES)


def thumbnail_memory() -> int:
    """What the process that paints them may take, in bytes of address space."""
    return int(settings.THUMBNAIL_MEMORY_BYTES)


def thumbnail_seconds() -> float:
    """How long one may take."""
    return float(settings.THUMBNAIL_SECONDS)


def hot_bytes() -> int:
    """The largest blob that main answers with, for nginx to keep it. Larger ones nginx reads by itself."""
    return int(settings.MIRROR_HOT_BYTES)


def is_proxied() -> bool:
    """Whether nginx passes on what a bucket has; else clients are redirected there."""
    return bool(settings.MIRROR_DELIVERY == "proxy")


def grace() -> timedelta:
    """How long a machine keeps what it has uploaded: others may have read the row just before."""
    return timedelta(seconds=settings.MIRROR_GRACE_SECONDS)


def retention() -> Retention:
    """What the settings let stay; 0 is no limit."""
    days = settings.MIRROR_KEEP_DAYS
    return Retention(settings.MIRROR_MAX_BYTES or None, timedelta(days=days) if days else None)
