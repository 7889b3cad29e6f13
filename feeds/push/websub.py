"""The wire format of WebSub (W3C Recommendation of 23 January 2018): Link fields, forms, calls, signatures.

Both sides are here: a subscriber's, for feeds of others, and a hub's, for the feeds of this site.

Link fields are those of RFC 8288. A delivery's signature is an HMAC (RFC 2104) over the bytes as received (WebSub,
7.1). Numbers in parentheses are sections of WebSub.
"""

import hashlib
import hmac
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode, urlsplit

from resources.fetch.http import url_syntax

from ..parser import markup

MAX_LINK_URL_CHARACTERS = 2000
MAX_LINK_FIELDS_CHARACTERS = 8192
"""The limit of all fields' values together: the rest is not read."""
MAX_ADDRESSES_PER_RELATION = 10

# Possessive quantifiers (`++`, `*+`) never backtrack. Quotes that do not end go to the end of the field.
_LINK = re.compile(r'<([^<>]*+)>((?:[^"<,]|"(?:[^"\\]|\\.)*+")*+)(?:".*+)?+', re.DOTALL)
_PARAMETER = re.compile(r';\s*+([\w-]++)\s*+=\s*+(?:"((?:[^"\\]|\\.)*+)"|([^\s;,"]++))', re.DOTALL)


def find_linked_addresses(relations: Collection[str], values: Iterable[str], base: str) -> dict[str, tuple[str, ...]]:
    """Finds the absolute addresses that an answer's Link fields give for relations, each once, in their order.

    `base` is the URL of the answer. Links of something else (`anchor`) do not count.
    """
    found: dict[str, dict[str, None]] = {relation: {} for relation in relations}
    for target, parameters in _find_links(values):
        wanted = found.keys() & _read_relations(parameters)
        address = markup.absolute_url(base, target, MAX_LINK_URL_CHARACTERS) if wanted else ""
        for relation in wanted if address else ():
            found[relation][address] = None
    return {relation: tuple(addressed)[:MAX_ADDRESSES_PER_RELATION] for relation, addressed in found.items()}


def _find_links(values: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The targets, as they are written, with their parameters."""
    left = MAX_LINK_FIELDS_CHARACTERS
    for value in values:
        yield from _LINK.findall(value[:left])
        left = max(left - len(value), 0)


def _read_relations(parameters: str) -> list[str]:
    """The first `rel` counts alone (RFC 8288, 3.3)."""
    named: dict[str, str] = {}
    for name, quoted, bare in _PARAMETER.findall(parameters):
        named.setdefault(name.lower(), quoted or bare)
    return [] if "anchor" in named else named.get("rel", "").lower().split()


SIGNATURE_HEADER = "X-Hub-Signature"
SIGNATURE_METHODS = ("sha1", "sha256", "sha384", "sha512")

_SIGNATURE = re.compile(rf"({'|'.join(SIGNATURE_METHODS)})=([0-9a-f]+)", re.ASCII | re.IGNORECASE)


def is_signature_valid(signature: str, body: bytes, secret: str) -> bool:
    """Tells whether the field's value, `method=hex`, is that of the body. False without a secret: it proves nothing.

    Takes as long for a wrong one as for a right one.
    """
    found = _SIGNATURE.fullmatch(signature.strip())
    if found is None or not secret:
        return False
    return hmac.compare_digest(sign_body(body, secret, found[1].lower()), f"{found[1]}={found[2]}".lower())


def sign_body(body: bytes, secret: str, method: str = "sha256") -> str:
    return f"{method}={hmac.new(secret.encode(), body, getattr(hashlib, method)).hexdigest()}"


FORM_TYPE = "application/x-www-form-urlencoded"
SUBSCRIBE, UNSUBSCRIBE, DENIED, PUBLISH = "subscribe", "unsubscribe", "denied", "publish"

MAX_CHALLENGE_CHARACTERS = 2000
MAX_REASON_CHARACTERS = 500
MIN_LEASE, MAX_LEASE = timedelta(minutes=1), timedelta(days=365)
"""The bounds of a lease as granted by a hub: a mistake of the hub in either direction would stop the pushes."""
DEFAULT_LEASE = timedelta(days=10)
"""The lease of hubs that name none (WebSub, 5.1 recommends it)."""

_LEASE_SECONDS = re.compile(r"[0-9]{1,10}", re.ASCII)


@dataclass(frozen=True, slots=True)
class LinkedHubs:
    """The hubs of a feed, by the Link fields of an answer or by its document (4), and its own address: their topic."""

    hubs: tuple[str, ...] = ()
    topic: str = ""

    @classmethod
    def read(cls, values: Sequence[str], base: str) -> "LinkedHubs":
        """Reads the fields' values; `base` is the URL of the answer."""
        found = find_linked_addresses(("hub", "self"), values, base)
        return cls(found["hub"], next(iter(found["self"]), ""))

    def to_json(self) -> dict[str, Any]:
        return {"hubs": list(self.hubs), "self": self.topic} if self.hubs or self.topic else {}

    @classmethod
    def from_json(cls, held: Mapping[str, Any]) -> "LinkedHubs":
        return cls(tuple(held.get("hubs", ())), held.get("self", ""))


@dataclass(frozen=True, slots=True)
class HubQuestion:
    """A hub's question: is a subscription, or its end, wanted (5.3)? `lease` is None if the hub names none."""

    mode: str
    topic: str
    challenge: str
    lease: timedelta | None


@dataclass(frozen=True, slots=True)
class HubDenial:
    """A hub's statement that there is no subscription, or no longer one (5.2)."""

    topic: str
    reason: str


def find_announced_hubs(linked: LinkedHubs, hubs: Sequence[str], itself: str, url: str) -> LinkedHubs | None:
    """Finds the hubs of a feed and its topic; None if it names no hub.

    Link fields go before the document: its `hubs`, and `itself`, its own address. A feed that does not name its own
    address is known by the one where it was found (`url`, after redirects).
    """
    found = tuple(dict.fromkeys(url_syntax.cut_fragment(hub) for hub in linked.hubs or hubs if hub))
    if not found:
        return None
    return LinkedHubs(found, linked.topic or itself or url_syntax.cut_fragment(url))


def write_subscription_form(topic: str, callback: str, secret: str, lease: timedelta) -> bytes:
    """The form that requests a subscription, or a longer one (5.1). Without a secret the hub signs nothing."""
    fields = {"hub.mode": SUBSCRIBE, "hub.topic": topic, "hub.callback": callback}
    fields["hub.lease_seconds"] = str(round(lease.total_seconds()))
    return urlencode({**fields, "hub.secret": secret} if secret else fields).encode()


def write_unsubscription_form(topic: str, callback: str) -> bytes:
    return urlencode({"hub.mode": UNSUBSCRIBE, "hub.topic": topic, "hub.callback": callback}).encode()


def write_publication_form(topic: str) -> bytes:
    """The form that tells a hub of a change. WebSub leaves it open: today's hubs take it by one of two names."""
    return urlencode({"hub.mode": PUBLISH, "hub.url": topic, "hub.topic": topic}).encode()


def read_hub_call(parameters: Mapping[str, str]) -> HubQuestion | HubDenial | None:
    """Reads the GET of a callback; None if no hub would send it."""
    mode, topic = parameters.get("hub.mode", ""), parameters.get("hub.topic", "")
    if mode == DENIED and topic:
        words = parameters.get("hub.reason", "").replace("\0", " ").split()
        return HubDenial(topic, " ".join(words)[:MAX_REASON_CHARACTERS])
    challenge = parameters.get("hub.challenge", "")
    if mode not in {SUBSCRIBE, UNSUBSCRIBE} or not topic or not 0 < len(challenge) <= MAX_CHALLENGE_CHARACTERS:
        return None
    seconds = parameters.get("hub.lease_seconds", "")
    lease = timedelta(seconds=int(seconds)) if _LEASE_SECONDS.fullmatch(seconds) else timedelta(0)
    return HubQuestion(mode, topic, challenge, lease or None)


def granted_lease(lease: timedelta | None) -> timedelta:
    """The lease of a subscription that was verified with this one."""
    return min(max(lease or DEFAULT_LEASE, MIN_LEASE), MAX_LEASE)


def may_be_signed(hub: str, topic: str) -> bool:
    """Tells whether a secret is sent: over TLS, or if the feed itself comes without TLS and could be forged anyway."""
    return urlsplit(hub).scheme == "https" or urlsplit(topic).scheme == "http"


OWN_HUB = "self"
"""The value of FEEDS_HUB with which this site is the hub of its own feeds."""
MAX_SECRET_BYTES = 199
"""A secret is shorter than 200 bytes (5.1)."""
MAX_CALLBACK_CHARACTERS = 2000


@dataclass(frozen=True, slots=True)
class HubRequest:
    """A subscriber's request to a hub (5.1). `lease` is None if it names none."""

    mode: str
    topic: str
    callback: str
    secret: str = ""
    lease: timedelta | None = None


def read_hub_request(form: Mapping[str, Sequence[str]]) -> HubRequest:
    """Reads the form of a request. Raises ValueError with a sentence for the sender. Unknown fields are ignored."""
    if repeated := [name for name, values in form.items() if name.startswith("hub.") and len(values) != 1]:
        raise ValueError(f"{repeated[0]} is given more than once.")
    given = {name: values[0] for name, values in form.items() if values}
    mode, topic, callback = (given.get(f"hub.{name}", "") for name in ("mode", "topic", "callback"))
    if mode == PUBLISH:
        raise ValueError("This hub tells of the feeds of its own site, and knows when they change.")
    if mode not in {SUBSCRIBE, UNSUBSCRIBE}:
        raise ValueError("hub.mode must be subscribe or unsubscribe.")
    if not topic or not callback:
        raise ValueError("hub.topic and hub.callback are required.")
    if len(callback) > MAX_CALLBACK_CHARACTERS:
        raise ValueError(f"hub.callback has at most {MAX_CALLBACK_CHARACTERS:,} characters.")
    secret, seconds = given.get("hub.secret", ""), given.get("hub.lease_seconds", "")
    if len(secret.encode("utf-8", "surrogatepass")) > MAX_SECRET_BYTES:
        raise ValueError(f"hub.secret has at most {MAX_SECRET_BYTES} bytes.")
    if seconds and not _LEASE_SECONDS.fullmatch(seconds):
        raise ValueError("hub.lease_seconds must be a whole number.")
    lease = timedelta(seconds=int(seconds)) if seconds else timedelta(0)
    return HubRequest(mode, topic, callback, secret, lease or None)


def allow_lease(asked: timedelta | None, usual: timedelta, longest: timedelta) -> timedelta:
    """The lease that this site's hub grants: the requested one within its bounds, or the usual one."""
    return min(max(asked or usual, MIN_LEASE), longest)


def write_question(callback: str, question: HubQuestion) -> str:
    """The URL of a hub's question (5.3). The callback's own query stays in front."""
    fields = {"hub.mode": question.mode, "hub.topic": question.topic, "hub.challenge": question.challenge}
    if question.lease is not None:
        fields["hub.lease_seconds"] = str(round(question.lease.total_seconds()))
    return _with_query(callback, fields)


def write_denial(callback: str, denial: HubDenial) -> str:
    """The URL by which a hub says that there is no subscription, or no longer one (5.2)."""
    return _with_query(callback, {"hub.mode": DENIED, "hub.topic": denial.topic, "hub.reason": denial.reason})


def write_links(hubs: Iterable[str], topic: str) -> str:
    """The Link field of a topic, and of its deliveries: its hubs and its address (4, 7)."""
    links = [*((hub, "hub") for hub in hubs), (topic, "self")]
    return ", ".join(f'<{url}>; rel="{relation}"' for url, relation in links)


def _with_query(url: str, fields: Mapping[str, str]) -> str:
    return f"{url}{'&' if '?' in url else '?'}{urlencode(fields)}"
