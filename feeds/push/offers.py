"""Finds the server at which a feed can be subscribed, by the feed's own data."""

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

from resources.fetch.http import url_syntax

from ..parser import documents
from ..parser.documents import Cloud
from . import websub
from .kinds import MAX_OFFER_URL_CHARACTERS, PushKind
from .websub import LinkedHubs

PAGE_KEY = "page"
"""The key of the hubs of the web page that announces a feed: they tell of the page when the feed has changed."""
PASSED_OVER_KEY, MAX_PASSED_OVER = "passed over", 10
"""The key of the servers that have been asked in vain."""
OWN_KEYS = (PAGE_KEY, PASSED_OVER_KEY)
"""The keys beside the Link fields that are not from them."""
XML_RPC = "xml-rpc"
_HTTP_POST, _HTTPS_POST = "http-post", "https-post"
_HTTPS_PORT = 443


@dataclass(frozen=True, slots=True)
class PushOffer:
    """An offer of a feed: the URL of the server that takes subscriptions, and its URL for the feed (`topic`).

    `procedure` is called there by XML-RPC; empty for a form.
    """

    kind: PushKind
    server: str
    topic: str
    procedure: str = ""

    @property
    def digest(self) -> str:
        return _digest(self.kind.value, *astuple(self)[1:])

    @property
    def hub_digest(self) -> str:
        return _digest(self.kind.value, self.server)


def find_offer(head: Mapping[str, Any], linked: Mapping[str, Any], url: str) -> PushOffer | None:
    """Finds the best offer of the feed at `url`; None without a usable one.

    `head` has the fields of `documents.FeedHead`, `linked` the Link fields of its last answer: `hubs` and `self`.
    """
    cloud = _cloud_offer(head, url)
    offers = [*_hub_offers(head, linked, url), *([cloud] if cloud else [])]
    offers += _hub_offers({}, linked.get(PAGE_KEY, {}), url)
    found = [one for one in offers if max(len(one.server), len(one.topic)) <= MAX_OFFER_URL_CHARACTERS]
    passed_over = linked.get(PASSED_OVER_KEY, ())
    return next((one for one in found if one.server not in passed_over), found[0] if found else None)


def pass_over_server(linked: Mapping[str, Any], server: str) -> dict[str, Any]:
    """Adds a server that does not take the feed: any other server goes before it."""
    known = [each for each in linked.get(PASSED_OVER_KEY, ()) if each != server]
    return {**linked, PASSED_OVER_KEY: [*known, server][-MAX_PASSED_OVER:]}


def _hub_offers(head: Mapping[str, Any], linked: Mapping[str, Any], url: str) -> list[PushOffer]:
    """Link fields go before the document."""
    links = LinkedHubs.from_json(linked)
    found = websub.find_announced_hubs(links, head.get("hubs", ()), head.get("self_link", ""), url)
    return [PushOffer(PushKind.WEBSUB, hub, found.topic) for hub in found.hubs] if found else []


def _cloud_offer(head: Mapping[str, Any], url: str) -> PushOffer | None:
    """<source:cloud> goes before <cloud>. A cloud knows the feed by what it calls itself, if that is at its host."""
    feed = documents.feed_from_json(head)
    known_as = feed.self_link if feed.self_link and _host_of(feed.self_link) == _host_of(url) else url
    if feed.cloud_url:
        return PushOffer(PushKind.RSSCLOUD, url_syntax.cut_fragment(feed.cloud_url), known_as)
    return _old_cloud_offer(feed.cloud, known_as) if feed.cloud else None


def _old_cloud_offer(cloud: Cloud, url: str) -> PushOffer | None:
    """The offer of a <cloud>; None for SOAP and other protocols."""
    server = _cloud_url(cloud)
    if cloud.protocol == XML_RPC:
        return PushOffer(PushKind.RSSCLOUD, server, url, cloud.register_procedure) if cloud.register_procedure else None
    return PushOffer(PushKind.RSSCLOUD, server, url) if cloud.protocol in {"", _HTTP_POST, _HTTPS_POST} else None


def _cloud_url(cloud: Cloud) -> str:
    scheme = "https" if cloud.protocol == _HTTPS_POST or cloud.port == _HTTPS_PORT else "http"
    default = 443 if scheme == "https" else 80
    host = f"[{cloud.domain}]" if ":" in cloud.domain and not cloud.domain.startswith("[") else cloud.domain
    port = "" if cloud.port == default else f":{cloud.port}"
    return url_syntax.cut_fragment(f"{scheme}://{host}{port}/{cloud.path.removeprefix('/')}")


def _host_of(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def _digest(*parts: str) -> str:
    return sha256("\x1f".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
