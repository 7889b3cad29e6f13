"""What the page of a feed tells of it: how it stands and why, its last fetches, its entries, its moves."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from resources import words
from resources.fetching.admin import domain_page
from resources.fetching.keeping.models import FetchDomain, FetchTiming
from resources.fetching.keeping.records import url_digest

from ..keeping import health
from ..models import Entry, Feed, Move
from ..parsing import sanitising
from . import charting
from .charting import Chart

ENTRIES = 10
MOVES = 20
EXCERPT_CHARACTERS = 240
_LOOKED_AT = 5000


@dataclass(frozen=True, slots=True)
class Shown:
    """An entry of the preview. `excerpt` is text, and cut."""

    title: str
    link: str
    when: str
    excerpt: str
    has_left: bool


def context(feed: Feed, now: datetime) -> dict[str, Any]:
    """All that the template wants to know."""
    made = list(Move.objects.filter(feed=feed)[:MOVES])
    return {
        "word": health.word(feed),
        "trouble": health.trouble(feed),
        "sentences": health.why(feed, now),
        "queue": _queue(feed),
        "facts": list(health.facts(feed, now)),
        "chart": chart(feed),
        "entries": entries(feed, now),
        "moves": made,
        "last_move": next((one for one in made if one.undone_at is None and one.new_url == feed.url), None),
        "moving": _moving(feed),
        "elsewhere": [each for each in feed.discovered if each.get("url") != feed.url],
        "domain": FetchDomain.objects.filter(scope=feed.host).first(),
        "formats": ("atom", "rss", "json"),
        "privacy": health.privacy(feed),
    }


def chart(feed: Feed) -> Chart:
    """Its last fetches at this address."""
    rows = FetchTiming.objects.filter(url_digest=url_digest(feed.url)).order_by("-started_at")
    names = ("started_at", "seconds", "wire_bytes", "outcome", "status")
    return charting.chart([charting.Fetched(*row) for row in rows.values_list(*names)[: charting.MOST]])


def entries(feed: Feed, now: datetime) -> list[Shown]:
    """The latest, as they stand in lists."""
    rows = Entry.objects.filter(feed=feed).only("title", "link", "data", "happened_at", "left_at", "identity")
    return [
        Shown(
            entry.title or entry.link or "without a title",
            entry.link if entry.link.startswith(("http://", "https://")) else "",
            words.ago(entry.happened_at, now),
            _excerpt(entry),
            entry.left_at is not None,
        )
        for entry in rows[:ENTRIES]
    ]


def _excerpt(entry: Entry) -> str:
    """The beginning of what it says, as text."""
    markup = str(entry.data.get("summary") or entry.data.get("content") or "")
    text = sanitising.text_of(markup[:_LOOKED_AT])
    return text if len(text) <= EXCERPT_CHARACTERS else text[:EXCERPT_CHARACTERS].rpartition(" ")[0] + " …"


def _queue(feed: Feed) -> str:
    """What a feed that was handed over waits for at its host; empty where nothing is known."""
    found = domain_page.standing(feed.host) if feed.handed_over_at is not None and not feed.paused else None
    return found.sentences[0] if found else ""


def _moving(feed: Feed) -> str:
    return str(feed.moving.get("url", ""))
