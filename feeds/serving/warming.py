"""The work that renders a popular page of feeds before anybody asks for it."""

from dataclasses import replace

from feeds.composing import subjects
from feeds.composing.asking import USUAL_ENTRIES, Asked
from feeds.composing.errors import UnknownError
from feeds.models import Feed
from resources.warming.pieces import Piece, Wanted

from . import known, standing
from .deciding import Fetch, Wait
from .work import render_work

LANE = "paint.warm"
KIND_OF_COMBINATIONS = "feeds"


def piece(counted_key: str, requests: float) -> Piece | None:
    """The piece by the key under which its requests are counted; None for what is gone, or has to be fetched first."""
    asked = _asked(counted_key)
    if asked is None:
        return None
    try:
        subject = known.subject(asked)
    except UnknownError:
        return None
    if isinstance(subject, Feed) and isinstance(standing.decide_now(subject), Fetch | Wait):
        return None
    key = subjects.content_key(asked, subject)
    work = replace(render_work(asked, key, subject.version), lane=LANE, refresh_lane=LANE)
    return Piece(work, (Wanted(key, asked.address, subject.version),), "feeds", requests=requests)


def _asked(counted_key: str) -> Asked | None:
    """The first page without parameters: those with some are left to whoever asks."""
    match counted_key.split(":"):
        case [kind, slug, ("atom" | "rss" | "json" | "html") as page_format, ""]:
            of_feed = kind != KIND_OF_COMBINATIONS
            page = Asked.page_of_feed(slug) if of_feed else Asked.page_of_category(slug)
            return replace(page, format=page_format, limit=USUAL_ENTRIES[page_format])
        case _:
            return None
