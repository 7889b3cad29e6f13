"""The frontier's numbers, and the ways out, as the settings say."""

from functools import cache
from typing import Any

from django.conf import settings
from django.core.signals import setting_changed

from ..addressing import egress
from ..addressing.egress import Egress
from .politeness import Politeness


@cache
def politeness() -> Politeness:
    """The settings as they stand. Units are those of docs/settings.md."""
    return Politeness(
        delay=settings.FETCH_DELAY_SECONDS,
        in_flight=settings.FETCH_IN_FLIGHT,
        bytes_per_second=settings.FETCH_BYTES_PER_SECOND,
        slow_after=settings.FETCH_SLOW_AFTER_SECONDS,
        lease=settings.FETCH_LEASE_SECONDS,
        backlog=settings.FETCH_BACKLOG,
        domain_backlog=settings.FETCH_DOMAIN_BACKLOG,
        stall=settings.FETCH_STALL_SECONDS,
    )


@cache
def egresses() -> tuple[Egress, ...]:
    """The ways out that requests are spread over. Raises MalformedEgressError where `checks` finds an error."""
    return egress.parse(settings.FETCH_EGRESS)


def _forget(**_: Any) -> None:
    politeness.cache_clear()
    egresses.cache_clear()


setting_changed.connect(_forget)  # tests override settings
