"""Entries and feeds as their readers leave them: texts raw, addresses relative, nothing cut. PURE."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from .documents import Author, Category, Cloud, Enclosure, Point, Source

Kind = Literal["text", "html", "unsaid"]


@dataclass(frozen=True, slots=True)
class Words:
    """A text, what it is written in, and what its relative addresses are relative to (None: nobody said).

    RSS does not say whether its texts are HTML: `unsaid` is to be told from the text.
    """

    value: str
    kind: Kind = "text"
    base: str | None = None


NOTHING = Words("")


@dataclass(slots=True)
class EntryDraft:
    """Authors, enclosures and all addresses hold what was written; `base` is what the addresses are relative to."""

    base: str
    id: str = ""
    link: str = ""
    title: Words = NOTHING
    published: datetime | None = None
    updated: datetime | None = None
    summary: Words = NOTHING
    content: Words = NOTHING
    authors: list[Author] = field(default_factory=list)
    categories: list[Category] = field(default_factory=list)
    enclosures: list[Enclosure] = field(default_factory=list)
    image: str = ""
    comments: str = ""
    language: str = ""
    source: Source | None = None
    point: Point | None = None

    @property
    def moment(self) -> datetime | None:
        """When it was last new."""
        return self.updated or self.published


@dataclass(slots=True)
class FeedDraft:
    """The same for a feed."""

    base: str
    id: str = ""
    link: str = ""
    title: Words = NOTHING
    subtitle: Words = NOTHING
    updated: datetime | None = None
    language: str = ""
    rights: Words = NOTHING
    image: str = ""
    authors: list[Author] = field(default_factory=list)
    categories: list[Category] = field(default_factory=list)
    self_link: str = ""
    next_link: str = ""
    new_address: str = ""
    hubs: list[str] = field(default_factory=list)
    cloud: Cloud | None = None
    cloud_url: str = ""
    ttl_minutes: int | None = None
    skip_hours: list[int] = field(default_factory=list)
    skip_days: list[int] = field(default_factory=list)
