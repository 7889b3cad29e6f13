"""Where a feed is, and what goes along when it moves."""

from resources.fetching.addressing import targets
from resources.fetching.addressing.scopes import scopes

from ..addresses import Address
from ..models import Feed


def fields_of(address: Address) -> dict[str, str]:
    """The fields of a feed that say where it is."""
    host = scopes(address.url).host
    return {"url": address.url, "user": address.user, "key_digest": address.key_digest, "host": host}


def moved(feed: Feed, url: str) -> Address:
    """Where the feed is at another URL: its user goes along only to the same server."""
    return Address(url, feed.user if may_take_along(feed.url, url) else "")


def may_take_along(old_url: str, new_url: str) -> bool:
    """Whether what the old address was shown may be shown to the new one: the same server, not less secure."""
    old, new = targets.parse(old_url), targets.parse(new_url)
    return old.origin == new.origin or (
        old.host == new.host and (old.scheme, old.port, new.scheme, new.port) == ("http", 80, "https", 443)
    )
