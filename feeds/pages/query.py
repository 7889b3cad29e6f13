"""What the address of a feed's page asks for. PURE. Does not know which feeds there are."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Literal, Self, cast
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from feeds.searching import folded

from .errors import AskError
from .places import Place

Format = Literal["atom", "rss", "json", "html"]

BEGINNING = "/feeds/"
ALL = "all"
MOST_ENTRIES = 200
"""Of a page."""
USUAL_ENTRIES: Mapping[Format, int] = {"atom": 50, "rss": 50, "json": 50, "html": 20}
MOST_CHARACTERS = 200
"""Of what is searched for."""
MOST_WORDS = 10
"""Different ones: each is one more condition for every text that is searched."""
PARAMETERS = ("q", "since", "limit", "before", "after")

_MOST_KEY_CHARACTERS = 250
_PATH = re.compile(
    r"/feeds/(?P<category>category/)?(?P<slug>[a-z0-9]+(?:-[a-z0-9]+)*)(?:\.(?P<format>atom|rss|json)|/)", re.ASCII
)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_TIME = re.compile(
    rf"{_DATE.pattern}[Tt][0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(?:\.[0-9]{{1,6}})?(?:[Zz]|[+-][0-9]{{2}}:[0-9]{{2}})",
    re.ASCII,
)
_LIMIT = re.compile(r"[1-9][0-9]{0,4}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Asked:
    """A page of one feed, or of the combination that a category is; ALL is the one of everything.

    `words` have to be in an entry, `since` is when the oldest one happened. The page begins after the entry at
    `before`, or ends before the one at `after`; the first page has neither.
    """

    is_combined: bool
    slug: str
    format: Format
    words: str = ""
    since: datetime | None = None
    limit: int = 0
    before: Place | None = None
    after: Place | None = None

    @classmethod
    def read(cls, path: str, given: Mapping[str, Sequence[str]]) -> Self | None:
        """From a path, decoded, and parameters; None for a path that is no feed's. Raises AskError."""
        asked = cls.read_path(path)
        return asked._with(given) if asked else None

    @classmethod
    def read_path(cls, path: str) -> Self | None:
        """The first page at a path, None for none."""
        if path == BEGINNING:
            return cls.page_of_category(ALL)
        match = _PATH.fullmatch(path)
        if not match:
            return None
        found = cast(Format, match["format"] or "html")
        slug, in_category = match["slug"], bool(match["category"])
        if slug == "category" or (slug == ALL and (in_category or found == "html")):  # ALL has one address
            return None
        return cls(is_combined=in_category or slug == ALL, slug=slug, format=found, limit=USUAL_ENTRIES[found])

    @classmethod
    def page_of_feed(cls, slug: str) -> Self:
        """For people."""
        return cls(is_combined=False, slug=slug, format="html", limit=USUAL_ENTRIES["html"])

    @classmethod
    def page_of_category(cls, slug: str) -> Self:
        return replace(cls.page_of_feed(slug), is_combined=True)

    @classmethod
    def read_address(cls, address: str) -> Self:
        """From what `address` gave."""
        parts = urlsplit(address)
        asked = cls.read(parts.path, parse_qs(parts.query))
        if asked is None:
            raise AskError("This is no address of a feed.")
        return asked

    @property
    def path(self) -> str:
        if self.is_combined and self.slug == ALL:
            return BEGINNING if self.format == "html" else f"{BEGINNING}{ALL}.{self.format}"
        named = f"{BEGINNING}{'category/' if self.is_combined else ''}{self.slug}"
        return f"{named}/" if self.format == "html" else f"{named}.{self.format}"

    @property
    def address(self) -> str:
        """One for all ways to write the same: the path, and the parameters that say something, in their order."""
        return f"{self.path}?{self._query}" if self._query else self.path

    @property
    def key(self) -> str:
        """What it is called in keys. Which feed or combination has that slug is for `subjects` to say."""
        query = self._query
        if len(query) > _MOST_KEY_CHARACTERS:
            query = blake2b(query.encode(), digest_size=16).hexdigest()
        return f"{'feeds' if self.is_combined else 'feed'}:{self.slug}:{self.format}:{query}"

    @property
    def is_first(self) -> bool:
        return self.before is None and self.after is None

    @property
    def is_filtered(self) -> bool:
        return bool(self.words) or self.since is not None

    def first(self) -> Self:
        return replace(self, before=None, after=None)

    def older_than(self, place: Place) -> Self:
        return replace(self, before=place, after=None)

    def newer_than(self, place: Place) -> Self:
        return replace(self, before=None, after=place)

    def as_format(self, wanted: Format) -> Self:
        """The first page of the same in another format."""
        return replace(self.first(), format=wanted, limit=USUAL_ENTRIES[wanted])

    @property
    def _query(self) -> str:
        given = {
            "q": self.words,
            "since": self.since.isoformat().replace("+00:00", "Z") if self.since else "",
            "limit": "" if self.limit == USUAL_ENTRIES[self.format] else str(self.limit),
            "before": str(self.before or ""),
            "after": str(self.after or ""),
        }
        return urlencode({name: value for name, value in given.items() if value}, quote_via=quote, safe="")

    def _with(self, given: Mapping[str, Sequence[str]]) -> Self:
        text = _each_once(given)
        before, after = (_place(name, text[name]) if name in text else None for name in ("before", "after"))
        if before and after:
            raise AskError("A page is before or after an entry, not both.")
        return replace(
            self,
            words=_words(text.get("q", "")),
            since=_moment(text["since"]) if "since" in text else None,
            limit=_limit(text["limit"]) if "limit" in text else self.limit,
            before=before,
            after=after,
        )


def _each_once(given: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """What is said, without what is empty: forms send all their fields."""
    for name, values in given.items():
        if name not in PARAMETERS:
            raise AskError(f"There is no parameter “{name[:40]}”; there are {', '.join(PARAMETERS)}.")
        if len(values) != 1:
            raise AskError(f"The parameter {name} is given more than once.")
    return {name: values[0] for name, values in given.items() if values[0]}


def _words(text: str) -> str:
    if len(text) > MOST_CHARACTERS:
        raise AskError(f"q has at most {MOST_CHARACTERS} characters.")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise AskError("q is not UTF-8.")
    words = dict.fromkeys(folded(text).split())
    if len(words) > MOST_WORDS:
        raise AskError(f"q has at most {MOST_WORDS} words.")
    return " ".join(words)


def _moment(text: str) -> datetime:
    text = text.replace(" ", "+")  # as a plus sign that was not encoded arrives
    if _DATE.fullmatch(text) or _TIME.fullmatch(text):
        try:
            moment = datetime.fromisoformat(text.upper())
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
        except (ValueError, OverflowError):
            pass
    raise AskError("since is a date, or a time with its zone: 2026-11-01, 2026-11-01T12:00:00Z.")


def _limit(text: str) -> int:
    if not _LIMIT.fullmatch(text) or int(text) > MOST_ENTRIES:
        raise AskError(f"limit is a whole number from 1 to {MOST_ENTRIES}.")
    return int(text)


def _place(name: str, text: str) -> Place:
    place = Place.read(text)
    if place is None:
        raise AskError(f"{name} is what the addresses of other pages have there: follow those.")
    return place
