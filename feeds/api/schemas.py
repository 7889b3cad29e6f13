"""The schemas of feeds, entries and filters, as the API takes and gives them."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Annotated, Literal

from ninja import Schema
from pydantic import ConfigDict, Field

from resources.problems import Problem

from ..errors import FilterError
from ..models import EntryFilter
from ..pages import entry_filters
from ..pages.entry_filters import MAX_FILTERS, MAX_PATTERN_CHARACTERS
from ..pages.search_terms import MAX_SEARCH_CHARACTERS


class Filter(Schema):
    """A filter of a feed's entries, by words or by a pattern."""

    model_config = ConfigDict(extra="forbid", strict=True)

    action: Literal["hide", "only"] = Field(
        default="hide", description="hide: hides entries that match. only: hides those that match no filter with only."
    )
    words: str = Field(
        default="",
        max_length=MAX_SEARCH_CHARACTERS,
        description='As a search: words, begin*, "phrases", -excluded, title: author: tag:.',
        examples=["tag:advertisement"],
    )
    pattern: str = Field(
        default="",
        max_length=MAX_PATTERN_CHARACTERS,
        description="An expression of RE2, in place of words; case does not count.",
    )
    field: Literal["", "title", "text", "author", "tag", "link"] = Field(
        default="", description="Where the pattern is looked for. Default: title."
    )


Filters = Annotated[list[Filter], Field(max_length=MAX_FILTERS)]


class FeedDescribed(Schema):
    """A feed, without the credentials for its server."""

    slug: str
    title: str
    site: str | None
    url: str | None = Field(description="Its address, for tokens that may manage feeds; null for others.")
    categories: list[list[str]] = Field(description="Each with its parents, the outermost first.")
    standing: str = Field(description="well, failing, gone, throttled, new, or paused.")
    hidden: bool = Field(description="Hidden: without output, shown only to tokens that may manage feeds.")
    full_content: bool = Field(description="The articles of excerpts are fetched.")
    icon: str | None = Field(description="The site's icon, as this site mirrors it.")
    filters: list[Filter] | None = Field(description="For tokens that may manage feeds; null for others.")
    subscribers: int
    changed_at: datetime | None = Field(description="The last change of its content.")
    checked_at: datetime | None
    next_check_at: datetime
    atom: str
    rss: str
    json_feed: str


class Feeds(Schema):
    """A page of feeds, in the order of their slugs."""

    feeds: list[FeedDescribed]
    next: str | None = Field(description="The address of the next page; null after the last.")


class Timing(Schema):
    started_at: datetime
    seconds: float
    bytes: int
    outcome: str
    status: int | None


class Health(Schema):
    """The health of a feed, and the reasons."""

    slug: str
    standing: str
    trouble: str | None = Field(description="The failure of the last fetch.")
    failures: int = Field(description="In a row.")
    failing_since: datetime | None
    why: list[str] = Field(
        description="The reasons for the next check; addresses only for tokens that may manage feeds."
    )
    next_check_at: datetime
    checked_at: datetime | None
    fetched_at: datetime | None = Field(description="The last successful check.")
    changed_at: datetime | None
    expected_seconds: float | None
    notes: list[str] = Field(description="Problems of the last document, for the same tokens.")
    fetches: list[Timing] = Field(description="The last requests, newest first.")


class EnclosureDescribed(Schema):
    """A file that belongs to an entry."""

    url: str
    media_type: str = Field(description="As the publisher says; empty if unknown.")
    length_bytes: int | None
    seconds: int | None
    title: str


class EntryDescribed(Schema):
    """An entry. Texts are sanitised HTML, but for the title, which is text."""

    id: str
    link: str
    title: str
    published: datetime | None
    updated: datetime | None
    summary: str
    content: str
    authors: list[str]
    categories: list[str]
    language: str = Field(description="As the entry says, else as its feed does; empty if neither does.")
    enclosures: list[EnclosureDescribed]
    happened_at: datetime = Field(description="Its place in lists.")
    changed_at: datetime


class OtherFeed(Schema):
    """Another feed that has an entry: its slug and its title."""

    feed: str
    title: str
    link: str = Field(description="Of its entry; without one, its page on this site.")


class ListedEntry(EntryDescribed):
    """An entry of a list, and the other feeds that have it."""

    also_in: list[OtherFeed] = Field(description="The first 20 feeds with the same story.")


class FoundEntry(ListedEntry):
    """An entry that a search found, and its feed."""

    feed: str = Field(description="The feed's slug.")


class FoundEntries(Schema):
    """A page of found entries, in the order of the search."""

    entries: list[FoundEntry]
    next: str | None = Field(description="The address of the next page; null after the last.")


class Entries(Schema):
    """A page of entries, newest first."""

    entries: list[ListedEntry]
    next: str | None = Field(description="The address of the next page; null after the last.")


def read_filters(feed_id: int, given: Sequence[Filter]) -> list[EntryFilter]:
    """Returns the filters, fit to be stored. Raises Problem."""
    found = [EntryFilter(feed_id=feed_id, **each.dict()) for each in given]
    for place, each in enumerate(found):
        try:
            entry_filters.check_filter(each)
        except FilterError as error:
            raise Problem(422, f"filters.{place}.{error.part}: {error}") from error
    return found


def describe_filters(feeds: Collection[int]) -> dict[int, list[Filter]]:
    """Returns the filters of these feeds, by their ids."""
    found: defaultdict[int, list[Filter]] = defaultdict(list)
    names = ("feed_id", "action", "words", "pattern", "field")
    for row in EntryFilter.objects.filter(feed__in=feeds).values(*names):
        found[row.pop("feed_id")].append(Filter(**row))
    return found
