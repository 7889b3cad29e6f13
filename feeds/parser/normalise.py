"""From drafts to values: texts sanitised and cut, addresses absolute, ids that are none taken away. PURE."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from . import addresses, sanitising
from .documents import Author, Category, Enclosure, Entry, Feed, Source
from .drafts import EntryDraft, FeedDraft, Words
from .limits import Limits

_MEANINGLESS_TYPE = "application/octet-stream"


@dataclass(slots=True)
class Finishing:
    """Finishes the drafts of one document, and counts what it had to leave out."""

    limits: Limits
    now: datetime
    site: str = ""
    counted: Counter[str] = field(default_factory=Counter)

    def feed(self, draft: FeedDraft) -> Feed:
        """The feed. To be finished before the entries: its site is what their addresses may be relative to."""
        base = draft.base
        link = self._address(base, draft.link)
        self.site = link or base
        return Feed(
            id=self._short(draft.id),
            link=link,
            title=self._text(draft.title),
            subtitle=self._text(draft.subtitle),
            updated=self._date(draft.updated),
            language=self._short(draft.language)[:50],
            rights=self._text(draft.rights),
            image=self._address(base, draft.image),
            authors=self._authors(base, draft.authors),
            categories=self._categories(draft.categories),
            self_link=self._address(base, draft.self_link),
            next_link=self._address(base, draft.next_link),
            new_address=self._address(base, draft.new_address),
            hubs=tuple(self._hubs(base, draft.hubs)),
            cloud=draft.cloud,
            cloud_url=self._address(base, draft.cloud_url),
            ttl_minutes=draft.ttl_minutes,
            skip_hours=tuple(draft.skip_hours),
            skip_days=tuple(draft.skip_days),
        )

    def entries(self, drafts: Sequence[EntryDraft]) -> tuple[Entry, ...]:
        """The entries, each once, their ids unique or empty."""
        return tuple(self._told_apart([self._entry(draft) for draft in drafts]))

    def _entry(self, draft: EntryDraft) -> Entry:
        base = draft.base
        link = self._address(base, draft.link)
        published, updated = self._date(draft.published), self._date(draft.updated)
        summary, content = self._html(draft.summary, link), self._html(draft.content, link)
        return Entry(
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
        )

    def _told_apart(self, entries: list[Entry]) -> Iterable[Entry]:
        by_id: dict[str, list[Entry]] = {}
        for entry in entries:
            by_id.setdefault(entry.id, []).append(entry)
        seen: set[tuple[str, str]] = set()
        for entry in entries:
            links = {other.link for other in by_id[entry.id]}
            if entry.id and len(links) > 1:
                self.counted["shared_id"] += 1
                entry = replace(entry, id="")  # noqa: PLW2901
            key = (entry.id, entry.link or f"{entry.title}\n{entry.content}")
            if key in seen:
                self.counted["twice"] += 1
                continue
            seen.add(key)
            yield entry

    def _address(self, base: str, written: str) -> str:
        found = addresses.absolute(base, written, self.limits.url_characters)
        if written.strip() and not found:
            self.counted["address"] += 1
        return found

    def _hubs(self, base: str, hubs: Sequence[str]) -> Iterable[str]:
        return dict.fromkeys(found for hub in hubs[: self.limits.parts] if (found := self._address(base, hub)))

    def _short(self, text: str) -> str:
        return sanitising.one_line(text)[: self.limits.text_characters]

    def _text(self, words: Words) -> str:
        value = words.value[: self.limits.content_characters]
        is_html = words.kind == "html" or (words.kind == "unsaid" and sanitising.is_markup(value))
        return (sanitising.text_of(value) if is_html else sanitising.one_line(value))[: self.limits.text_characters]

    def _html(self, words: Words, link: str) -> str:
        """Relative addresses are, if nobody says so, relative to the entry's page: that is where they were made."""
        value = words.value
        if len(value) > self.limits.content_characters:
            self.counted["cut"] += 1
            value = value[: self.limits.content_characters]
        if not value.strip():
            return ""
        markup = sanitising.escaped(value) if words.kind == "text" else value
        return sanitising.sanitised(markup, words.base or link or self.site)

    def _date(self, moment: datetime | None) -> datetime | None:
        """A date that can be: one far ahead would keep its entry at the top for ever."""
        if moment is not None and moment > self.now + self.limits.future:
            self.counted["future"] += 1
            return None
        return moment

    def _part(self, text: str) -> str:
        return self._short(text)[: self.limits.part_characters]

    def _categories(self, categories: Sequence[Category]) -> tuple[Category, ...]:
        """A scheme is an address, mostly: one that is cut is none."""
        most = self.limits.part_characters
        return tuple(
            Category(each.term[:most], each.scheme if len(each.scheme) <= most else "", each.label[:most])
            for each in categories[: self.limits.parts]
        )

    def _authors(self, base: str, authors: Sequence[Author]) -> tuple[Author, ...]:
        found = (self._author(base, author) for author in authors[: self.limits.people])
        return tuple(author for author in found if author != Author())

    def _author(self, base: str, author: Author) -> Author:
        """Formats that ask for a name get an address in its place from those who have none."""
        name = sanitising.text_of(author.name)[: self.limits.part_characters]
        email = self._part(author.email.removeprefix("mailto:"))
        url = addresses.absolute(base, author.url, self.limits.url_characters)
        return Author("" if name in (email, url) else name, email, url)

    def _enclosures(self, base: str, enclosures: Sequence[Enclosure]) -> tuple[Enclosure, ...]:
        """Each address once, with all that was said of it in several places."""
        by_url: dict[str, Enclosure] = {}
        for enclosure in enclosures[: self.limits.parts]:
            url = self._address(base, enclosure.url)
            if url:
                media_type = "" if enclosure.media_type == _MEANINGLESS_TYPE else enclosure.media_type[:200]
                new = replace(enclosure, url=url, media_type=media_type, title=self._part(enclosure.title))
                by_url[url] = _united(by_url[url], new) if url in by_url else new
        return tuple(by_url.values())

    def _source(self, base: str, source: Source | None) -> Source | None:
        if source is None:
            return None
        found = Source(self._short(source.title), self._address(base, source.url), self._address(base, source.link))
        return None if found == Source() else found


def _united(one: Enclosure, other: Enclosure) -> Enclosure:
    return Enclosure(
        one.url,
        one.media_type or other.media_type,
        one.length_bytes or other.length_bytes,
        one.seconds or other.seconds,
        one.title or other.title,
    )
