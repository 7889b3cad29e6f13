"""How a subscription stands, between its row and the values that are decided with."""

from dataclasses import asdict, fields
from datetime import timedelta
from typing import Any

from django.conf import settings

from ..pushing.renewing import Rules, Standing, State
from ..subscriptions import Subscription

_NAMES = tuple(field.name for field in fields(Standing))


def standing_of(row: Subscription) -> Standing:
    return Standing(**{**{name: getattr(row, name) for name in _NAMES}, "state": State(row.state)})


def fields_of(standing: Standing) -> dict[str, Any]:
    """What a standing makes of the row."""
    return {**asdict(standing), "state": standing.state.value}


def rules() -> Rules:
    """By what rules registrations are renewed."""
    return Rules(
        renew_after=timedelta(hours=settings.FEEDS_PUSH_RENEW_HOURS),
        spread=timedelta(hours=settings.FEEDS_PUSH_SPREAD_HOURS),
    )
