"""Addresses of feeds as people and programs write them, and which of them are the same feed. PURE."""

import re
from dataclasses import dataclass
from hashlib import sha256
from urllib.parse import quote, unquote

from resources.fetching.addressing import targets
from resources.fetching.addressing.targets import Target
from resources.fetching.errors import FetchError

from .errors import AddressError

_FEED_SCHEME = re.compile(r"(?:feed|pcast|itpc|podcast):(?://)?", re.I)
_OTHER_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:(?![0-9]+(?:[/?#]|$))", re.I)
_SCHEME = re.compile(r"https?://", re.I)
_USERINFO = re.compile(r"(?P<scheme>https?://)(?P<userinfo>[^/?#]*)@", re.I)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")

MOST_USER_CHARACTERS = 200
MOST_PASSWORD_CHARACTERS = 1000


@dataclass(frozen=True, slots=True)
class Address:
    """Where a feed is. `url` is asked as it is; `user` and `password` are what stood in front of the host."""

    url: str
    user: str = ""
    password: str = ""

    @property
    def key(self) -> str:
        """What addresses of one feed have in common. Not to be fetched.

        Neither the scheme counts, since sites move to https, nor the default port, nor the case of the host; another
        user may see another feed. Parameters count: there are feeds that differ in nothing else.
        """
        target = targets.parse(self.url)
        is_default = target.port == targets.DEFAULT_PORTS[target.scheme]
        host = target.host if is_default else f"{target.host}:{target.port}"
        user = f"{quote(self.user, safe='')}@" if self.user else ""
        return f"{user}{host}{target.path_and_query}"

    @property
    def key_digest(self) -> str:
        """SHA-256 of the key."""
        return sha256(self.key.encode()).hexdigest()


def read(text: str) -> Address:
    """The address that is meant: `feed:` is http, and what has no scheme https. Raises AddressError."""
    written = _with_scheme(text.strip())
    userinfo = _USERINFO.match(written)
    user, _, password = (userinfo["userinfo"] if userinfo else "").partition(":")
    return with_user(_target(written).url, unquote(user), unquote(password))


def with_user(url: str, user: str, password: str) -> Address:
    """The address of a feed that is given to this user. Raises AddressError for what Basic authentication has not."""
    if len(user) > MOST_USER_CHARACTERS or len(password) > MOST_PASSWORD_CHARACTERS:
        raise AddressError(
            f"A user has {MOST_USER_CHARACTERS} characters at the most, a password {MOST_PASSWORD_CHARACTERS:,}."
        )
    if ":" in user or _CONTROL.search(user + password):
        raise AddressError("A user has no colon, and neither user nor password have control characters.")
    return Address(url, user, password)


def _with_scheme(text: str) -> str:
    if not text:
        raise AddressError("There is no address.")
    feed = _FEED_SCHEME.match(text)
    rest = text[feed.end() :] if feed else text
    if _SCHEME.match(rest):  # feed:https://… says nothing more
        return rest
    if feed:
        return f"http://{rest}"
    if _OTHER_SCHEME.match(rest):
        raise AddressError("Only http and https are fetched.")
    bare = rest.removeprefix("//")
    if "." not in re.split(r"[/?#]", bare, maxsplit=1)[0]:
        raise AddressError("This is no address: it has no host.")
    return f"https://{bare}"


def _target(url: str) -> Target:
    try:
        return targets.parse(url)
    except FetchError as error:
        raise AddressError(f"This cannot be fetched: {error.detail}.") from error
