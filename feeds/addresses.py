"""Reads addresses of feeds, tells which of them are the same feed, and finds the secrets in them.

Secrets are values of parameters with names like `token`, and parts of a query or path that look like a token. They
are left out of the publisher's texts, too. Secrets that do not look like one cannot be found: such feeds are for
`Feed.is_hidden`.

PURE: imports neither Django, Celery, Redis nor the network; the time is an argument.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from urllib.parse import quote, unquote, unquote_plus, urlsplit

from resources.fetch.http import url_syntax
from resources.fetch.http.messages import FetchError

from .errors import FeedAddressError

_FEED_SCHEME = re.compile(r"(?:feed|pcast|itpc|podcast):(?://)?", re.I)
_OTHER_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:(?![0-9]+(?:[/?#]|$))", re.I)
_SCHEME = re.compile(r"https?://", re.I)
_USERINFO = re.compile(r"(?P<scheme>https?://)(?P<userinfo>[^/?#]*)@", re.I)
_CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f]")

MAX_USER_CHARACTERS = 200
MAX_PASSWORD_CHARACTERS = 1000


@dataclass(frozen=True, slots=True)
class FeedLocation:
    """The location of a feed. `url` is requested as it is; `user` and `password` stood in front of the host."""

    url: str
    user: str = ""
    password: str = ""

    @property
    def key(self) -> str:
        """The part that all addresses of one feed share. Not to be fetched.

        Scheme (sites move to https), default port and the host's case do not count. The user counts: another user
        may see another feed. Parameters count: some feeds differ in nothing else.
        """
        target = url_syntax.parse_target(self.url)
        is_default = target.port == url_syntax.DEFAULT_PORTS[target.scheme]
        host = target.host if is_default else f"{target.host}:{target.port}"
        user = f"{quote(self.user, safe='')}@" if self.user else ""
        return f"{user}{host}{target.path_and_query}"

    @property
    def key_digest(self) -> str:
        return sha256(self.key.encode()).hexdigest()


def read_address(text: str) -> FeedLocation:
    """Reads an address: `feed:` means http, no scheme means https. Raises FeedAddressError."""
    written = _with_scheme(text.strip())
    userinfo = _USERINFO.match(written)
    user, _, password = (userinfo["userinfo"] if userinfo else "").partition(":")
    try:
        url = url_syntax.parse_target(written).url
    except FetchError as error:
        raise FeedAddressError(f"The address cannot be fetched: {error.detail}.") from error
    return address_with_user(url, unquote(user), unquote(password))


def address_with_user(url: str, user: str, password: str) -> FeedLocation:
    """Returns the address for this user. Raises FeedAddressError for values not allowed in Basic authentication."""
    if len(user) > MAX_USER_CHARACTERS or len(password) > MAX_PASSWORD_CHARACTERS:
        raise FeedAddressError(
            f"A user has at most {MAX_USER_CHARACTERS} characters, a password {MAX_PASSWORD_CHARACTERS:,}."
        )
    if ":" in user or _CONTROL_CHARACTER.search(user + password):
        raise FeedAddressError("A user has no colon, and neither user nor password have control characters.")
    return FeedLocation(url, user, password)


def _with_scheme(text: str) -> str:
    if not text:
        raise FeedAddressError("Enter an address.")
    feed = _FEED_SCHEME.match(text)
    rest = text[feed.end() :] if feed else text
    if _SCHEME.match(rest):  # feed:https://… says nothing more
        return rest
    if feed:
        return f"http://{rest}"
    if _OTHER_SCHEME.match(rest):
        raise FeedAddressError("Only http and https are fetched.")
    bare = rest.removeprefix("//")
    if "." not in re.split(r"[/?#]", bare, maxsplit=1)[0]:
        raise FeedAddressError("The address has no host.")
    return f"https://{bare}"


REDACTED = "…"
MIN_SECRET_CHARACTERS = 6
"""Shorter values of parameters are formats and page numbers."""

_SECRET_NAME = re.compile(r"token|key|auth|secret|pass|pwd|sig|hash|session|code|user|login|\A\Z", re.I)
_MIXED_VALUE = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z]).{8,}")
_TOKEN_LIKE = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9_~.=-]{16,}")
_PUBLIC_NAMES = frozenset({"channel_id", "playlist_id"})
"""Parameters of YouTube's feeds: its pages have them in their addresses."""
_TEXT_FIELDS = frozenset({"title", "summary", "content", "full", "subtitle", "rights", "name", "term", "label"})
"""Fields in which secrets are replaced. All others are addresses and the like, useless without them: they go."""
_WHOLE_FIELDS = frozenset({"cloud", "enclosures", "transcripts"})
"""Fields whose objects have no use and no meaning without one of their own fields."""


def find_secrets(*urls: str) -> tuple[str, ...]:
    """Finds the parts of addresses that may be secrets, the longest first."""
    found = set[str]()
    for url in urls:
        parts = urlsplit(url)
        found |= {part for part in parts.path.split("/") if _TOKEN_LIKE.fullmatch(part)}
        for pair in parts.query.split("&"):
            name, equals, value = pair.partition("=")
            name, value = (name, value) if equals else ("", pair)
            is_secret = name not in _PUBLIC_NAMES and (_SECRET_NAME.search(name) or _MIXED_VALUE.fullmatch(value))
            if is_secret and len(value) >= MIN_SECRET_CHARACTERS:
                found |= {pair, value} if _TOKEN_LIKE.fullmatch(value) else {pair}
    found |= {unquote_plus(part) for part in found}
    return tuple(sorted(found, key=lambda part: (-len(part), part)))


def without_secrets(text: str, url: str) -> str:
    """Returns the text; empty if a secret of that address is in it."""
    return "" if any(part in text for part in find_secrets(url)) else text


def shows_address(text: str, url: str) -> bool:
    """Tells whether a text has a secret of that address in it, or the whole address without its scheme."""
    parts = urlsplit(url)
    whole = f"{parts.netloc}{parts.path}".lower() if parts.path.strip("/") else ""
    return any(part in text for part in find_secrets(url)) or (bool(whole) and whole in text.lower())


def leave_out_secrets(values: Mapping[str, Any], secrets: tuple[str, ...]) -> Mapping[str, Any]:
    if not secrets:
        return values
    kept = {name: _value_without_secrets(name, value, secrets) for name, value in values.items()}
    return {name: value for name, value in kept.items() if value is not None}


def _value_without_secrets(name: str, value: Any, secrets: tuple[str, ...]) -> Any:
    """None for a value that goes."""
    match value:
        case str() if name in _TEXT_FIELDS:
            for part in secrets:
                value = value.replace(part, REDACTED)
            return value
        case str():
            return None if any(part in value for part in secrets) else value
        case list():
            kept = [_value_without_secrets(name, one, secrets) for one in value]
            return [one for one in kept if one is not None]
        case dict():
            rest = leave_out_secrets(value, secrets)
            return None if name in _WHOLE_FIELDS and len(rest) < len(value) else rest
    return value
