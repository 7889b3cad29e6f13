"""WebSub as a subscriber sees it (W3C Recommendation of 23 January 2018): who is asked for what, and what may be said.

PURE: values only. Nothing here knows rows, or sends anything.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode, urlsplit

from . import links

FORM = "application/x-www-form-urlencoded"
SUBSCRIBE, UNSUBSCRIBE, DENIED, PUBLISH = "subscribe", "unsubscribe", "denied", "publish"

MOST_CHALLENGE_CHARACTERS = 2000
MOST_REASON_CHARACTERS = 500
LEAST_LEASE, MOST_LEASE = timedelta(minutes=1), timedelta(days=365)
"""A lease that a hub says it grants is taken for no less, and no more: a slip of either kind would stop the pushes."""
USUAL_LEASE = timedelta(days=10)
"""That of hubs which say nothing (WebSub, 5.1 recommends it)."""

_SECONDS = re.compile(r"[0-9]{1,10}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Linked:
    """What the Link header fields of an answer say (WebSub, 4): the hubs, and the address of the feed itself."""

    hubs: tuple[str, ...] = ()
    topic: str = ""

    @classmethod
    def read(cls, values: Sequence[str], base: str) -> "Linked":
        """Of the fields' values; `base` is where the answer came from."""
        found = links.addresses_of(("hub", "self"), values, base)
        return cls(found["hub"], next(iter(found["self"]), ""))

    def to_json(self) -> dict[str, Any]:
        return {"hubs": list(self.hubs), "self": self.topic} if self.hubs or self.topic else {}

    @classmethod
    def from_json(cls, held: Mapping[str, Any]) -> "Linked":
        return cls(tuple(held.get("hubs", ())), held.get("self", ""))


@dataclass(frozen=True, slots=True)
class Announced:
    """A feed's hubs, the one to be asked first before the others, and the topic by which they know the feed."""

    hubs: tuple[str, ...]
    topic: str


@dataclass(frozen=True, slots=True)
class Question:
    """A hub asks whether a subscription, or its end, is wanted (5.3). `lease` is None where it does not say."""

    mode: str
    topic: str
    challenge: str
    lease: timedelta | None


@dataclass(frozen=True, slots=True)
class Denial:
    """A hub says that there is no subscription, or not any more (5.2)."""

    topic: str
    reason: str


def announced(linked: Linked, hubs: Sequence[str], itself: str, url: str) -> Announced | None:
    """Where to subscribe to a feed; None where it names no hub.

    What Link fields say goes before what the document says: its `hubs`, and `itself`, its own address. A feed that
    does not say its own is known by where it was found (`url`, after redirects).
    """
    found = tuple(dict.fromkeys(hub.partition("#")[0] for hub in linked.hubs or hubs if hub))
    if not found:
        return None
    return Announced(found, linked.topic or itself or url.partition("#")[0])


def subscription(topic: str, callback: str, secret: str, lease: timedelta) -> bytes:
    """The form that asks for a subscription, or for a longer one (5.1). No secret: the hub is to sign nothing."""
    fields = {"hub.mode": SUBSCRIBE, "hub.topic": topic, "hub.callback": callback}
    fields["hub.lease_seconds"] = str(round(lease.total_seconds()))
    return urlencode({**fields, "hub.secret": secret} if secret else fields).encode()


def end(topic: str, callback: str) -> bytes:
    """The form that asks for the end of a subscription."""
    return urlencode({"hub.mode": UNSUBSCRIBE, "hub.topic": topic, "hub.callback": callback}).encode()


def publication(topic: str) -> bytes:
    """The form that tells a hub of a change. WebSub leaves it open: what the hubs of today take, by both names."""
    return urlencode({"hub.mode": PUBLISH, "hub.url": topic, "hub.topic": topic}).encode()


def heard(parameters: Mapping[str, str]) -> Question | Denial | None:
    """What a GET of a callback says; None for what no hub says."""
    mode, topic = parameters.get("hub.mode", ""), parameters.get("hub.topic", "")
    if mode == DENIED and topic:
        words = parameters.get("hub.reason", "").replace("\0", " ").split()
        return Denial(topic, " ".join(words)[:MOST_REASON_CHARACTERS])
    challenge = parameters.get("hub.challenge", "")
    if mode not in {SUBSCRIBE, UNSUBSCRIBE} or not topic or not 0 < len(challenge) <= MOST_CHALLENGE_CHARACTERS:
        return None
    return Question(mode, topic, challenge, _lease(parameters.get("hub.lease_seconds", "")))


def granted(lease: timedelta | None) -> timedelta:
    """For how long a subscription holds that was verified with this lease."""
    return min(max(lease or USUAL_LEASE, LEAST_LEASE), MOST_LEASE)


def may_be_signed(hub: str, topic: str) -> bool:
    """Whether a secret is sent: over TLS, or where the feed itself comes without and could be forged all the same."""
    return urlsplit(hub).scheme == "https" or urlsplit(topic).scheme == "http"


def _lease(text: str) -> timedelta | None:
    """None for what is no number of seconds above zero."""
    return timedelta(seconds=int(text)) if _SECONDS.fullmatch(text) and int(text) > 0 else None
