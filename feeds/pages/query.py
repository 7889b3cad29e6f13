"""Parses the address of a feed's page into a query. Does not know which feeds there are.

Cursors are places between entries, at which pages begin. Entries are in order from the newest to the oldest: by the
time at which they happened, then by their number. A page that begins at an entry stays the same when newer ones
come.

PURE: imports neither Django, Celery, Redis nor the network; the time is an argument.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any, Literal, Self, cast, get_args
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from resources import humanize

from ..errors import PageQueryError
from ..output.output_page import format_timestamp
from .search_terms import SearchQuery

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CURSOR_PATTERN = re.compile(r"([0-9]{1,18})-([0-9]{1,18})(?:-([1-9][0-9]{0,4}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Cursor:
    """The place next to an entry: its time, and its number.

    In searches with the best first, `passed` entries of the ranks up to this entry are on earlier pages: newer entries
    shift no rank.
    """

    happened_at: datetime
    number: int
    passed: int = 0

    def __str__(self) -> str:
        """Microseconds since 1970, a hyphen, the number; another hyphen and the entries that are passed."""
        passed = f"-{self.passed}" if self.passed else ""
        return f"{(self.happened_at - EPOCH) // timedelta(microseconds=1)}-{self.number}{passed}"

    @classmethod
    def read(cls, written: str) -> Self | None:
        match = _CURSOR_PATTERN.fullmatch(written)
        try:
            if match is None:
                return None
            return cls(EPOCH + timedelta(microseconds=int(match[1])), int(match[2]), int(match[3] or 0))
        except OverflowError:
            return None


PageFormat = Literal["atom", "rss", "json", "html", "opml"]
"""`opml` is the list of a combination's feeds: it has no entries, and no parameters."""
PageOrder = Literal["date", "rank"]

FEEDS_PATH = "/feeds/"
ALL_SLUG = "all"
MAX_PAGE_ENTRIES = 200
DEFAULT_PAGE_ENTRIES: Mapping[PageFormat, int] = {"atom": 50, "rss": 50, "json": 50, "html": 20, "opml": 50}
_MAX_KEY_CHARACTERS = 250
_PATH = re.compile(
    r"/feeds/(?P<category>category/)?(?P<slug>[a-z0-9]+(?:-[a-z0-9]+)*)(?:\.(?P<format>atom|rss|json|opml)|/)", re.ASCII
)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_TIME = re.compile(
    rf"{_DATE.pattern}[Tt][0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(?:\.[0-9]{{1,6}})?(?:[Zz]|[+-][0-9]{{2}}:[0-9]{{2}})",
    re.ASCII,
)
_LIMIT = re.compile(r"[1-9][0-9]{0,4}", re.ASCII)


def _parse_words(name: str, text: str) -> str:
    return SearchQuery.read(name, text).written


def _parse_order(name: str, text: str) -> PageOrder:
    if text not in get_args(PageOrder):
        raise PageQueryError(f"{name} is date or rank.")
    return cast(PageOrder, text)


def _parse_moment(name: str, text: str) -> datetime:
    text = text.replace(" ", "+")  # as a plus sign that was not encoded arrives
    if _DATE.fullmatch(text) or _TIME.fullmatch(text):
        try:
            moment = datetime.fromisoformat(text.upper())
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
        except (ValueError, OverflowError):
            pass
    raise PageQueryError(f"{name} is a date, or a time with its zone: 2026-11-01, 2026-11-01T12:00:00Z.")


def _parse_limit(name: str, text: str) -> int:
    if not _LIMIT.fullmatch(text) or int(text) > MAX_PAGE_ENTRIES:
        raise PageQueryError(f"{name} is a whole number from 1 to {MAX_PAGE_ENTRIES}.")
    return int(text)


def _parse_cursor(name: str, text: str) -> Cursor:
    place = Cursor.read(text)
    if place is None:
        raise PageQueryError(f"{name} comes from the links to other pages: follow them.")
    return place


def _argument(
    name: str, parse: Callable[[str, str], Any], write: Callable[[Any], str] = str, *, leaves_out: bool = False
) -> dict[str, Any]:
    """The argument of addresses that a field stands for. `leaves_out`: with it some entries are on no page."""
    return {"name": name, "parse": parse, "write": write, "leaves_out": leaves_out}


@dataclass(frozen=True, slots=True)
class PageQuery:
    """A query for a page of one feed, or of a category's combination; ALL_SLUG is that of all feeds.

    `words` are a search (`search_terms`); an entry came here at `since` at the earliest, whatever its date. The page
    begins after the entry at `before`, or ends before the one at `after`; the first page has neither.
    """

    is_combined: bool
    slug: str
    format: PageFormat
    words: str = field(default="", metadata=_argument("q", _parse_words, leaves_out=True))
    since: datetime | None = field(
        default=None, metadata=_argument("since", _parse_moment, format_timestamp, leaves_out=True)
    )
    order: PageOrder = field(default="date", metadata=_argument("order", _parse_order))
    """Of a search: the newest first, or the best."""
    limit: int = field(default=0, metadata=_argument("limit", _parse_limit))
    """The most entries of the page; 0 stands for the usual number in this format."""
    before: Cursor | None = field(default=None, metadata=_argument("before", _parse_cursor))
    after: Cursor | None = field(default=None, metadata=_argument("after", _parse_cursor))

    def __post_init__(self) -> None:
        object.__setattr__(self, "limit", self.limit or DEFAULT_PAGE_ENTRIES[self.format])
        if self.order == "rank" and not self.search.required:  # nothing by which entries differ
            object.__setattr__(self, "order", "date")

    @classmethod
    def read(cls, path: str, given: Mapping[str, Sequence[str]]) -> Self | None:
        """Parses a decoded path and parameters; None if the path is no feed's. Raises PageQueryError."""
        asked = cls.read_path(path)
        return asked if asked is None or asked.is_list else asked._with(given)

    def knows(self, names: Iterable[str]) -> bool:
        """Tells whether all these parameters are known. Others are ignored."""
        return set(names) <= (set() if self.is_list else _ARGUMENTS.keys())

    @property
    def is_list(self) -> bool:
        """True if the page lists feeds, not entries."""
        return self.format == "opml"

    @classmethod
    def read_path(cls, path: str) -> Self | None:
        """Returns the query for the first page at a path, None if there is none."""
        if path == FEEDS_PATH:
            return cls.page_of_category(ALL_SLUG)
        match = _PATH.fullmatch(path)
        if not match:
            return None
        found = cast(PageFormat, match["format"] or "html")
        slug, in_category = match["slug"], bool(match["category"])
        if slug == "category" or (slug == ALL_SLUG and (in_category or found == "html")):  # all feeds have one address
            return None
        is_combined = in_category or slug == ALL_SLUG
        return cls(is_combined, slug, found) if is_combined or found != "opml" else None

    @classmethod
    def page_of_feed(cls, slug: str) -> Self:
        """The page for people."""
        return cls(is_combined=False, slug=slug, format="html")

    @classmethod
    def page_of_category(cls, slug: str) -> Self:
        return cls(is_combined=True, slug=slug, format="html")

    @classmethod
    def read_address(cls, address: str) -> Self:
        parts = urlsplit(address)
        asked = cls.read(parts.path, parse_qs(parts.query))
        if asked is None:
            raise PageQueryError("This is not the address of a feed.")
        return asked

    @property
    def search(self) -> SearchQuery:
        """The terms of `words`."""
        return SearchQuery.read("q", self.words)

    @property
    def path(self) -> str:
        if self.is_combined and self.slug == ALL_SLUG:
            return FEEDS_PATH if self.format == "html" else f"{FEEDS_PATH}{ALL_SLUG}.{self.format}"
        named = f"{FEEDS_PATH}{'category/' if self.is_combined else ''}{self.slug}"
        return f"{named}/" if self.format == "html" else f"{named}.{self.format}"

    @property
    def address(self) -> str:
        """The one address for all spellings: the path, and the parameters that are not empty, in their order."""
        return f"{self.path}?{self._query}" if self._query else self.path

    @property
    def key(self) -> str:
        """The query's part of cache keys. The subject adds which feed or combination has that slug."""
        query = self._query
        if len(query) > _MAX_KEY_CHARACTERS:
            query = blake2b(query.encode(), digest_size=16).hexdigest()
        return f"{'feeds' if self.is_combined else 'feed'}:{self.slug}:{self.format}:{query}"

    @property
    def is_filtered(self) -> bool:
        return any(getattr(self, each.name) for each in _ARGUMENTS.values() if each.metadata["leaves_out"])

    @property
    def is_part(self) -> bool:
        """True if there are entries that this page and its older ones do not have."""
        return self.is_filtered or self.before is not None or self.after is not None

    @property
    def is_topic(self) -> bool:
        """True if programs may be told of its changes: the first page for them, without parameters."""
        return self.format not in ("html", "opml") and self.address == self.path

    @property
    def entry_words(self) -> str:
        with_words = f" with “{self.words}”" if self.words else ""  # as it is written: with - and fields
        return f"Entries{with_words}{f' that came since {humanize.format_moment(self.since)}' if self.since else ''}"

    def page_title(self, title: str) -> str:
        return f"{title}: {self.words}" if self.words else title

    def first(self) -> Self:
        return replace(self, before=None, after=None)

    def ordered_by(self, order: PageOrder) -> Self:
        return replace(self.first(), order=order)

    def older_than(self, place: Cursor) -> Self:
        return replace(self, before=place, after=None)

    def newer_than(self, place: Cursor) -> Self:
        return replace(self, before=None, after=place)

    def page_before(self, place: Cursor) -> Self:
        """The page before the one at that place: of newer entries, or of better ones."""
        if self.order == "date":
            return self.newer_than(place)
        return self.older_than(place) if place.passed else self.first()

    def as_format(self, wanted: PageFormat) -> Self:
        """The first page of the same in another format."""
        return replace(self.first(), format=wanted, limit=0)

    @property
    def _query(self) -> str:
        plain, given = PageQuery(self.is_combined, self.slug, self.format), {}
        for name, each in _ARGUMENTS.items():
            value = getattr(self, each.name)
            if value != getattr(plain, each.name):
                given[name] = each.metadata["write"](value)
        return urlencode(given, quote_via=quote, safe="")

    def _with(self, given: Mapping[str, Sequence[str]]) -> Self:
        values = {}
        for name, text in _single_values(given).items():
            values[_ARGUMENTS[name].name] = _ARGUMENTS[name].metadata["parse"](name, text)
        found = replace(self, **values)
        if found.before and found.after:
            raise PageQueryError("A page is before or after an entry, not both.")
        if found.after and found.order == "rank":
            raise PageQueryError("A page with the best first goes on by before alone.")
        if found.before and bool(found.before.passed) is not (found.order == "rank"):
            raise PageQueryError("before comes from the links to other pages of the same order: follow them.")
        return found


_ARGUMENTS: Mapping[str, Field[Any]] = {each.metadata["name"]: each for each in fields(PageQuery) if each.metadata}


def _single_values(given: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Returns the known parameters without empty ones: forms send all their fields."""
    known = {name: values for name, values in given.items() if name in _ARGUMENTS}
    if repeated := [name for name, values in known.items() if len(values) != 1]:
        raise PageQueryError(f"The parameter {repeated[0]} is given more than once.")
    return {name: values[0] for name, values in known.items() if values[0]}
