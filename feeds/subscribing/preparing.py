"""The fetchers' task that asks hubs and clouds: what is sent, and what becomes of the answer.

The request's intent is stored before it is sent: servers verify it while it is still open.
"""

import logging
import random
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from django.db import Error as DatabaseError

from resources.fetching.errors import UnreadableSealError
from resources.fetching.outcomes import Failed, Fetched, NotModified
from resources.fetching.requests import Fetch
from retry.contents import Prepared
from retry.errors import PreparationError
from retry.work import Argument

from ..pushing import renewing, websub
from ..pushing.renewing import Answer, Missed, State
from ..subscriptions import Subscription
from . import standings, wanting
from .asking import PROTOCOLS, Asking

AGAIN_SECONDS = 5.0
AHEAD = timedelta(minutes=10)
"""What is due later than so is not asked for: it has been."""
IN_VAIN = 3
"""After so many attempts another server is asked, if the feed names one."""

_log = logging.getLogger("tarry.feeds")


class AskHub:
    """The task `feeds.ask_hub`. Its arguments are the hub's URL and the subscription."""

    obeys_robots = False
    """The feed names it for this."""

    def fetch(self, *arguments: Argument) -> Fetch | Mapping[str, Prepared]:
        """The request; nothing where nothing is to be asked any more. Raises PreparationError."""
        try:
            subscription, now = _subscription(arguments), datetime.now(UTC)
            if subscription is None or subscription.state == State.ENDED.value or _is_there(subscription, now):
                return {}
            return _begun(subscription, now)
        except DatabaseError as error:
            raise _unreadable() from error

    def prepare(self, outcome: Fetched | NotModified | Failed, *arguments: Argument) -> Mapping[str, Prepared]:
        """Stores what came of it. Raises PreparationError where that cannot be stored."""
        try:
            subscription = _subscription(arguments)
            if subscription is not None and subscription.intent:  # else it was verified, denied or ended meanwhile
                settle(subscription, _protocol(subscription).answer(subscription, outcome), datetime.now(UTC))
        except DatabaseError as error:
            _log.warning("an answer of a hub could not be stored", extra={"error": str(error)})
            raise _unreadable() from error
        return {}


TASK = AskHub()


def settle(subscription: Subscription, answer: Answer, now: datetime) -> None:
    """Stores what an answer makes of the subscription, unless something came since. Raises DatabaseError."""
    before = standings.standing_of(subscription)
    after = renewing.after(before, answer, now, random.random(), standings.rules())
    if not standings.unchanged(subscription).update(**standings.fields_of(after)):
        return
    if after.state is State.DENIED or (after.state is State.WANTED and after.failures >= IN_VAIN):
        wanting.pass_over(subscription)


def _is_there(subscription: Subscription, now: datetime) -> bool:
    """Whether what is to be asked for is in force already: the work is done again whose fetcher was killed after that.

    What is due by a clock that is a little behind is due.
    """
    stands = standings.standing_of(subscription)
    return stands.is_in_force(now) and stands.due_at is not None and stands.due_at > now + AHEAD


def _begun(subscription: Subscription, now: datetime) -> Fetch | Mapping[str, Prepared]:
    protocol = _protocol(subscription)
    is_leaving = subscription.state == State.LEAVING.value
    intent = websub.UNSUBSCRIBE if is_leaving else websub.SUBSCRIBE
    fields = {"intent": intent, "asked_at": now, **protocol.prepared(subscription)}
    Subscription.objects.filter(pk=subscription.pk).update(**fields)
    for name, value in fields.items():
        setattr(subscription, name, value)
    try:
        return protocol.request(subscription)
    except (ValueError, UnreadableSealError) as error:
        settle(subscription, Missed(f"{error}."), now)
        return {}


def _protocol(subscription: Subscription) -> Asking:
    return PROTOCOLS[subscription.hub.kind]


def _subscription(arguments: tuple[Argument, ...]) -> Subscription | None:
    return Subscription.objects.select_related("hub").filter(pk=int(arguments[1])).first()


def _unreadable() -> PreparationError:
    return PreparationError("The subscriptions cannot be read now.", status=503, retry_seconds=AGAIN_SECONDS)
