"""The settings of mirrored files, in the form that the other modules use."""

from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings

DAY_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    """The limits of retention: `max_bytes` of all blobs together, `keep` since the last access. None: no limit."""

    max_bytes: int | None = None
    keep: timedelta | None = None

    def __bool__(self) -> bool:
        return self.max_bytes is not None or self.keep is not None


def retry_pause(attempt: int) -> timedelta:
    """Returns the pause before the next attempt: doubled each time, up to a day."""
    return timedelta(seconds=min(settings.MIRROR_RETRY_SECONDS * 2 ** (attempt - 1), DAY_SECONDS))


def settle_seconds() -> float:
    """Returns the time after which all processes surely use changed rules."""
    return 2 * float(settings.MIRROR_RULES_SECONDS) + 10


def retention_limits() -> RetentionLimits:
    """Returns the limits from the settings, where 0 means no limit."""
    days = settings.MIRROR_KEEP_DAYS
    return RetentionLimits(settings.MIRROR_MAX_BYTES or None, timedelta(days=days) if days else None)
