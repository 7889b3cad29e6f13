"""Turns drafts into values: texts sanitised and cut, addresses absolute, invalid ids removed, dates parsed.

Dates are read as feeds write them: RFC 822, W3CDTF, and what publishers take for them.
"""

import calendar
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, field, replace
from datetime import UTC, datetime, timedelta, timezone

from feedparser import datetimes

from . import documents, markup

_MAX_DATE_CHARACTERS = 100
_EARLIEST = datetime(1990, 1, 1, tzinfo=UTC)
"""Before feeds, and before the web: a date of zeros, or of 1970, is a mistake."""
_MONTHS = {name.lower(): number for number, name in enumerate(calendar.month_abbr) if name}
_ZONES = {
    **dict.fromkeys(("", "z", "ut", "utc", "gmt", "wet"), 0),
    **{"ast": -4, "adt": -3, "est": -5, "edt": -4, "cst": -6, "cdt": -5, "mst": -7, "mdt": -6, "pst": -8, "pdt": -7},
    **{"bst": 1, "cet": 1, "west": 1, "cest": 2, "mez": 1, "mesz": 2, "eet": 2, "eest": 3, "msk": 3, "jst": 9},
}
_RFC822 = re.compile(
    r"""(?:[^\s\d,]{2,12}\s*,?\s*)?
    (?P<day>\d{1,2})[\s-]+(?P<month>[A-Za-z]{3})[a-z]{0,6}\.?,?[\s-]+(?P<year>\d{4}|\d\d)
    (?:,?\s+(?P<hour>\d{1,2}):(?P<minute>\d{1,2})(?::(?P<second>\d{1,2})(?:\.\d{1,9})?)?)?
    \s*(?P<zone>(?:GMT|UTC|UT)?[+-]\d{1,2}:?\d\d|[A-Za-z]{0,5})(?:\s*\([^)]{0,30}\))?""",
    re.VERBOSE | re.ASCII,
)
_ISO = re.compile(
    r"""(?P<year>\d{4})(?:-?(?P<month>\d\d)(?:-?(?P<day>\d\d)
    (?:[Tt\s]\s*(?P<hour>\d\d)(?::?(?P<minute>\d\d)(?::?(?P<second>\d\d)(?:[.,](?P<fraction>\d{1,12}))?)?)?
    \s*(?P<zone>[Zz]|UTC|GMT|[+-]\d\d(?::?\d\d)?)?)?)?)?""",
    re.VERBOSE | re.ASCII,
)


def parse_date(text: str) -> datetime | None:
    """Returns the moment that a text names, None if it is no date. Without a zone it counts as UTC."""
    text = text.strip()
    if not text or len(text) > _MAX_DATE_CHARACTERS:
        return None
    match = _RFC822.fullmatch(text) or _ISO.fullmatch(text)
    try:
        moment = _assemble_date(match.groupdict()) if match else _parse_unusual_date(text)
    except (ValueError, OverflowError):
        return None
    return moment if moment is not None and moment >= _EARLIEST else None


def _assemble_date(parts: dict[str, str | None]) -> datetime:
    year, month = int(parts["year"] or 0), parts["month"] or "1"
    hour, second = int(parts["hour"] or 0), int(parts["second"] or 0)
    moment = datetime(
        year if len(parts["year"] or "") == 4 else year + (1900 if year >= 90 else 2000),
        int(month) if month.isdigit() else _MONTHS.get(month.lower(), 0),  # 0 is refused
        int(parts["day"] or 1),
        0 if hour == 24 else hour,
        int(parts["minute"] or 0),
        min(second, 59),  # leap seconds
        int((parts.get("fraction") or "").ljust(6, "0")[:6]),
        tzinfo=_parse_zone((parts["zone"] or "").lower()),
    )
    return (moment + timedelta(days=hour == 24)).astimezone(UTC)


def _parse_zone(text: str) -> timezone:
    offset = text.removeprefix("gmt").removeprefix("utc").removeprefix("ut") if text[-1:].isdigit() else text
    if offset[:1] not in ("+", "-"):
        return timezone(timedelta(hours=_ZONES.get(offset, 0)))
    digits = offset[1:].replace(":", "")
    hours, minutes = (int(digits[:-2] or 0), int(digits[-2:])) if len(digits) > 2 else (int(digits), 0)
    return timezone((-1 if offset[0] == "-" else 1) * timedelta(hours=hours, minutes=minutes))


def _parse_unusual_date(text: str) -> datetime | None:
    """Parses other orders and languages, as far as feedparser knows them (it has no public name for this)."""
    found: tuple[int, ...] | None = datetimes._parse_date(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = found[:6]
    return datetime(year, month, day, hour, minute, min(second, 59), tzinfo=UTC)


_MEANINGLESS_TYPE = "application/octet-stream"


@dataclass(slots=True)
class Normaliser:
    """Turns the drafts of one document into values, and counts the parts that it leaves out."""

    limits: documents.FeedLimits
    now: datetime
    site: str = ""
    counted: Counter[str] = field(default_factory=Counter)

    def feed(self, draft: documents.FeedDraft) -> documents.FeedHead:
        """Returns the feed. Call it before `entries`: their addresses may be relative to the feed's site."""
        base = draft.base
        link = self._address(base, draft.link)
        self.site = link or base
        hubs = [self._address(base, hub) for hub in draft.hubs[: self.limits.parts]]
        return documents.FeedHead(
            id=self._short(draft.id),
            link=link,
            title=self._text(draft.title),
            subtitle=self._text(draft.subtitle),
            updated=self._date(draft.updated),
            language=self._short(draft.language)[:50],
            rights=self._text(draft.rights),
            image=self._address(base, draft.image),
            icon=self._address(base, draft.icon),
            authors=self._authors(base, draft.authors),
            categories=self._categories(draft.categories),
            self_link=self._address(base, draft.self_link),
            next_link=self._address(base, draft.next_link),
            new_address=self._address(base, draft.new_address),
            hubs=tuple(dict.fromkeys(hub for hub in hubs if hub)),
            cloud=draft.cloud,
            cloud_url=self._address(base, draft.cloud_url),
            ttl_minutes=draft.ttl_minutes,
            skip_hours=tuple(draft.skip_hours),
            skip_days=tuple(draft.skip_days),
        )

    def entries(self, drafts: Sequence[documents.EntryDraft]) -> tuple[documents.ParsedEntry, ...]:
        """Returns the entries, each once, in its newest version; their ids are unique or empty."""
        return tuple(self._without_duplicates([self._entry(draft) for draft in drafts]))

    def _entry(self, draft: documents.EntryDraft) -> documents.ParsedEntry:
        base = draft.base
        link = self._address(base, draft.link)
        published, updated = self._date(draft.published), self._date(draft.updated)
        summary, content = self._html(draft.summary, link), self._html(draft.content, link)
        return documents.ParsedEntry(
            id=self._short(draft.id),
            link=link,
            title=self._text(draft.title),
            published=published,
            updated=updated if updated != published else None,
            summary=summary if summary != content else "",
            content=content,
            authors=self._authors(base, draft.authors),
            categories=self._categories(draft.categories),
            enclosures=self._enclosures(base, draft.enclosures),
            image=self._address(base, draft.image),
            comments=self._address(base, draft.comments),
            language=self._short(draft.language)[:50],
            source=self._source(base, draft.source),
            point=draft.point,
            season=draft.season,
            episode=draft.episode,
            chapters=self.chapters(base, draft.chapters),
            chapters_url=self._address(base, draft.chapters_url),
            transcripts=self._transcripts(base, draft.transcripts),
            youtube=draft.youtube,
        )

    def chapters(self, base: str, chapters: Sequence[documents.Chapter]) -> tuple[documents.Chapter, ...]:
        """Returns the chapters in the order of their beginnings."""
        found = (
            documents.Chapter(
                each.start, self._part(each.title), self._address(base, each.url), self._address(base, each.image)
            )
            for each in chapters[: self.limits.chapters]
        )
        return tuple(sorted(found, key=lambda chapter: chapter.start))

    def _transcripts(self, base: str, given: Sequence[documents.Transcript]) -> tuple[documents.Transcript, ...]:
        found = (
            documents.Transcript(self._address(base, each.url), self._part(each.media_type), self._part(each.language))
            for each in given[: self.limits.parts]
        )
        return tuple(each for each in found if each.url)

    def _without_duplicates(self, entries: list[documents.ParsedEntry]) -> Iterable[documents.ParsedEntry]:
        by_id: dict[str, list[documents.ParsedEntry]] = {}
        for entry in entries:
            by_id.setdefault(entry.id, []).append(entry)
        kept: dict[tuple[str, ...], documents.ParsedEntry] = {}
        for entry in entries:
            first = kept.setdefault(_entry_key(entry), entry)
            if first is not entry:
                self.counted["twice"] += 1
                kept[_entry_key(entry)] = max(first, entry, key=_entry_moment)  # the first of equals
        for entry in kept.values():
            is_shared = entry.id and len({other.link for other in by_id[entry.id]}) > 1
            self.counted["shared_id"] += bool(is_shared)
            yield replace(entry, id="") if is_shared else entry

    def _address(self, base: str, written: str) -> str:
        found = markup.absolute_url(base, written, self.limits.url_characters)
        if written.strip() and not found:
            self.counted["address"] += 1
        return found

    def _short(self, text: str) -> str:
        return markup.to_one_line(text)[: self.limits.text_characters]

    def _text(self, words: documents.DraftText) -> str:
        value = words.value[: self.limits.content_characters]
        is_html = words.kind == "html" or (words.kind == "unsaid" and markup.is_markup(value))
        return (markup.html_to_text(value) if is_html else markup.to_one_line(value))[: self.limits.text_characters]

    def _html(self, words: documents.DraftText, link: str) -> str:
        """Sanitises a text. Relative addresses are relative to the entry's page if the feed sets no base."""
        value = words.value
        if len(value) > self.limits.content_characters:
            self.counted["cut"] += 1
            value = value[: self.limits.content_characters]
        if not value.strip():
            return ""
        html = markup.escape_text(value) if words.kind == "text" else value
        return markup.sanitise_html(html, words.base or link or self.site)

    def _date(self, moment: datetime | None) -> datetime | None:
        """Returns the date unless it is too far ahead: such an entry would stay at the top for ever."""
        if moment is not None and moment > self.now + self.limits.future:
            self.counted["future"] += 1
            return None
        return moment

    def _part(self, text: str) -> str:
        return self._short(text)[: self.limits.part_characters]

    def _categories(self, categories: Sequence[documents.ParsedCategory]) -> tuple[documents.ParsedCategory, ...]:
        """Cuts categories. A scheme is mostly an address: a cut one is useless, and left out."""
        most = self.limits.part_characters
        return tuple(
            documents.ParsedCategory(
                each.term[:most], each.scheme if len(each.scheme) <= most else "", each.label[:most]
            )
            for each in categories[: self.limits.parts]
        )

    def _authors(self, base: str, authors: Sequence[documents.Author]) -> tuple[documents.Author, ...]:
        found = (self._author(base, author) for author in authors[: self.limits.people])
        return tuple(author for author in found if author != documents.Author())

    def _author(self, base: str, author: documents.Author) -> documents.Author:
        """Drops a name that is only an address: formats that demand a name get one from authors without."""
        name = self._short(markup.html_to_text(author.name))
        email = self._part(author.email.removeprefix("mailto:"))
        url = markup.absolute_url(base, author.url, self.limits.url_characters)
        return documents.Author("" if name in (email, url) else name, email, url)

    def _enclosures(self, base: str, enclosures: Sequence[documents.Enclosure]) -> tuple[documents.Enclosure, ...]:
        """Returns each address once, with everything that several places say of it."""
        by_url: dict[str, documents.Enclosure] = {}
        for enclosure in enclosures[: self.limits.parts]:
            url = self._address(base, enclosure.url)
            if url:
                media_type = "" if enclosure.media_type == _MEANINGLESS_TYPE else enclosure.media_type[:200]
                new = replace(enclosure, url=url, media_type=media_type, title=self._part(enclosure.title))
                by_url[url] = _unite_enclosures(by_url[url], new) if url in by_url else new
        return tuple(by_url.values())

    def _source(self, base: str, source: documents.EntrySource | None) -> documents.EntrySource | None:
        if source is None:
            return None
        url, link = self._address(base, source.url), self._address(base, source.link)
        found = documents.EntrySource(self._short(source.title), url, link)
        return None if found == documents.EntrySource() else found


def _entry_key(entry: documents.ParsedEntry) -> tuple[str, ...]:
    """Returns the part that two versions of an entry share. Without an id, pages with several entries are common."""
    if entry.id:
        return entry.id, entry.link
    return "", entry.link, entry.title, "" if entry.link else entry.content


def _entry_moment(entry: documents.ParsedEntry) -> datetime:
    return entry.updated or entry.published or _EARLIEST


def _unite_enclosures(one: documents.Enclosure, other: documents.Enclosure) -> documents.Enclosure:
    return documents.Enclosure(*(mine or theirs for mine, theirs in zip(astuple(one), astuple(other), strict=True)))
