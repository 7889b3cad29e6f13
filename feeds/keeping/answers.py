"""What an answer says of a feed, as fields of its row. Stores nothing."""

from typing import Any

from resources.fetching.outcomes import Fetched, NotModified

from ..models import MOST_URL_CHARACTERS, Feed
from ..pushing import discovering
from ..pushing.websub import Linked
from ..readings import Reading

_OWN_TITLE = 2000


def validators(feed: Feed, outcome: Fetched | NotModified) -> dict[str, Any]:
    """By what is asked the next time whether anything has changed. A 304 need not repeat them."""
    if len(outcome.head.url) > MOST_URL_CHARACTERS:
        return {"validated_url": "", "etag": "", "last_modified": "", "body_digest": ""}
    found = {"validated_url": outcome.head.url}
    if isinstance(outcome, Fetched):
        given = {"etag": outcome.head.etag or "", "last_modified": outcome.head.last_modified or ""}
        return {**found, **given, "body_digest": outcome.body.digest}
    renewed = {
        "etag": outcome.head.etag or feed.etag,
        "last_modified": outcome.head.last_modified or feed.last_modified,
    }
    return {**found, **renewed}


def offered(feed: Feed, outcome: Fetched | NotModified, reading: Reading | None) -> dict[str, Any]:
    """Where it can be subscribed by now. A 304 need not repeat Link fields."""
    fields, linked = outcome.head.headers.getall("Link", []), feed.linked
    if fields or isinstance(outcome, Fetched):
        kept = {name: feed.linked[name] for name in discovering.OURS if name in feed.linked}
        linked = {**Linked.read(fields, outcome.head.url).to_json(), **kept}
    offer = discovering.offer(feed.said if reading is None else reading.said, linked, feed.url)
    return {"linked": linked, "offer_digest": offer.digest if offer else ""}


def said(reading: Reading) -> dict[str, Any]:
    """What it says of itself, and what was noted in reading it."""
    site = str(reading.said.get("link", ""))
    return {
        "said": reading.said,
        "own_title": str(reading.said.get("title", ""))[:_OWN_TITLE],
        "site": site if len(site) <= MOST_URL_CHARACTERS else "",
        "notes": list(reading.notes),
    }
