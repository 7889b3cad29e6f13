"""How subscriptions are asked for, by protocol: a module each, with the same functions."""

from collections.abc import Mapping
from typing import Protocol

from resources.fetching.outcomes import Failed, Fetched, NotModified
from resources.fetching.requests import Fetch

from ..pushing.discovering import Kind
from ..pushing.renewing import Answer
from ..subscriptions import Subscription
from . import clouds, hubs


class Asking(Protocol):
    """What a protocol's module has."""

    def prepared(self, subscription: Subscription) -> Mapping[str, object]:
        """Fields of the row that change before it is asked for."""
        ...

    def request(self, subscription: Subscription) -> Fetch:
        """What is sent. Raises ValueError for what cannot be."""
        ...

    def answer(self, subscription: Subscription, outcome: Fetched | NotModified | Failed) -> Answer:
        """What came of it."""
        ...


PROTOCOLS: Mapping[str, Asking] = {Kind.RSSCLOUD.value: clouds, Kind.WEBSUB.value: hubs}
