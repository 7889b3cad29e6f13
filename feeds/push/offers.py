"""From what a feed says of itself to where it can be subscribed. PURE."""

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from enum import Enum
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

from feeds import encoding
from feeds.parsing.documents import Cloud

from . import websub
from .websub import Linked

PAGE = "page"
"""Where the hubs of the web page are kept that announces a feed: they tell of the page, when the feed has changed."""
PASSED_OVER, MOST_PASSED_OVER = "passed over", 10
"""Where servers are kept that have been asked in vain."""
OURS = (PAGE, PASSED_OVER)
"""What stands beside the Link fields, and is not from them."""
MOST_URL_CHARACTERS = 2000
"""What is longer is no offer."""
XML_RPC = "xml-rpc"
_HTTP_POST, _HTTPS_POST = "http-post", "https-post"
_HTTPS_PORT = 443


class Kind(Enum):
    """By which protocol a server tells of changes."""

    RSSCLOUD = "rsscloud"
    WEBSUB = "websub"


@dataclass(frozen=True, slots=True)
class Offer:
    """Where a feed can be subscribed: the server's URL, and the URL by which it knows the feed.

    `procedure` is what is called there by XML-RPC; empty for a form.
    """

    kind: Kind
    server: str
    topic: str
    procedure: str = ""

    @property
    def digest(self) -> str:
        """The same for what is the same. SHA-256, in hex."""
        return _digest(self.kind.value, *astuple(self)[1:])

    @property
    def hub_digest(self) -> str:
        """The same for what is offered by one server."""
        return _digest(self.kind.value, self.server)


def offer(said: Mapping[str, Any], linked: Mapping[str, Any], url: str) -> Offer | None:
    """The best that the feed at `url` offers; None for nothing that can be used.

    `said` has the fields of `documents.Feed`, `linked` what the Link fields of its last answer said: `hubs` and `self`.
    """
    cloud = _cloud(said, url)
    offers = [*_hubs(said, linked, url), *([cloud] if cloud else []), *_hubs({}, linked.get(PAGE, {}), url)]
    found = [one for one in offers if max(len(one.server), len(one.topic)) <= MOST_URL_CHARACTERS]
    passed_over = linked.get(PASSED_OVER, ())
    return next((one for one in found if one.server not in passed_over), found[0] if found else None)


def passing_over(linked: Mapping[str, Any], server: str) -> dict[str, Any]:
    """The same with a server that does not take the feed: another goes before it, as long as there is one."""
    known = [each for each in linked.get(PASSED_OVER, ()) if each != server]
    return {**linked, PASSED_OVER: [*known, server][-MOST_PASSED_OVER:]}


def _hubs(said: Mapping[str, Any], linked: Mapping[str, Any], url: str) -> list[Offer]:
    """Link fields go before the document."""
    found = websub.announced(Linked.from_json(linked), said.get("hubs", ()), said.get("self_link", ""), url)
    return [Offer(Kind.WEBSUB, hub, found.topic) for hub in found.hubs] if found else []


def _cloud(said: Mapping[str, Any], url: str) -> Offer | None:
    """<source:cloud> goes before <cloud>. A cloud knows the feed by what it calls itself, if that is at its host."""
    feed = encoding.feed_from_json(said)
    known_as = feed.self_link if feed.self_link and _host(feed.self_link) == _host(url) else url
    if feed.cloud_url:
        return Offer(Kind.RSSCLOUD, feed.cloud_url, known_as)
    return _old_cloud(feed.cloud, known_as) if feed.cloud else None


def _old_cloud(cloud: Cloud, url: str) -> Offer | None:
    """None for SOAP, and whatever else there may be."""
    server = _address(cloud)
    if cloud.protocol == XML_RPC:
        return Offer(Kind.RSSCLOUD, server, url, cloud.register_procedure) if cloud.register_procedure else None
    return Offer(Kind.RSSCLOUD, server, url) if cloud.protocol in {"", _HTTP_POST, _HTTPS_POST} else None


def _address(cloud: Cloud) -> str:
    scheme = "https" if cloud.protocol == _HTTPS_POST or cloud.port == _HTTPS_PORT else "http"
    default = 443 if scheme == "https" else 80
    host = f"[{cloud.domain}]" if ":" in cloud.domain and not cloud.domain.startswith("[") else cloud.domain
    port = "" if cloud.port == default else f":{cloud.port}"
    return f"{scheme}://{host}{port}/{cloud.path.removeprefix('/')}"


def _host(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def _digest(*parts: str) -> str:
    return sha256("\x1f".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
