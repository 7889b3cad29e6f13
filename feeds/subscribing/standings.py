"""How a subscription stands, between its row and the values that are decided with."""

from dataclasses import fields
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import QuerySet

from ..pushing.renewing import Rules, Standing, State
from ..subscriptions import Subscription

_NAMES = tuple(field.name for field in fields(Standing))


def standing_of(row: Subscription) -> Standing:
    return Standing(**{**{name: getattr(row, name) for name in _NAMES}, "state": State(row.state)})


def fields_of(standing: Standing) -> dict[str, Any]:
    """What a standing makes of the row."""
    return {**{name: getattr(standing, name) for name in _NAMES}, "state": standing.state.value}


def unchanged(row: Subscription) -> QuerySet[Subscription]:
    """The row, unless it was asked for, verified, denied or ended since it was read."""
    asked = {"asked_at": row.asked_at, "intent": row.intent}
    return Subscription.objects.filter(pk=row.pk, state=row.state, verified_at=row.verified_at, **asked)


def rules() -> Rules:
    """By what rules registrations are renewed."""
    return Rules(
        renew_after=timedelta(hours=settings.FEEDS_PUSH_RENEW_HOURS),
        spread=timedelta(hours=settings.FEEDS_PUSH_SPREAD_HOURS),
    )
