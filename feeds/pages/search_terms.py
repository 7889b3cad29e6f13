"""Reads the words of a search into terms, and writes them for the full-text index of either database.

    word             an entry with this word, in any case and with or without accents
    wor*             one with a word that begins like this
    "two words"      one with these words next to each other
    -word            one without it; the same before a phrase, a beginning or a field
    title:word       one with the word in its title; also author: and tag:, with a phrase or a beginning as well
    feed:slug        one of the feed with this slug; of several, one of any of them

All terms must hold. Excluded terms alone are a search too: for all entries without them. Everything else in a text
only parts words. The index is `search_index`'s: its columns in SQLite, the marks of its lexemes in PostgreSQL.

PURE: imports neither Django, Celery, Redis nor the network; the time is an argument.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Self

from ..errors import PageQueryError
from ..words import PART_END, fold_text, is_unspaced, split_words

MAX_SEARCH_CHARACTERS = 200
MAX_SEARCH_TERMS = 10
MIN_BEGINNING_CHARACTERS = 3
"""Of a word before its `*`: fewer begin too many words."""

REPLACEMENT = "\ufffd"
"""Stands for bytes that were no UTF-8. No text is searched for it."""

FEED_FIELD = "feed"
LEXEME_MARKS = {"": "", "title": "t:", "author": "a:", "tag": "g:"}
"""The beginnings of PostgreSQL's lexemes, by the field of the word."""
FEED_MARK, EVERY_ENTRY = "f:", "e:"
_OWN = PART_END
"""In SQLite's index, the beginning of words that are no entry's: it is no part of a word here."""
EVERY_ENTRY_TOKEN = _OWN

_QUOTES = str.maketrans(dict.fromkeys("“”„‟«»", '"'))
_TERM = re.compile(
    rf"(?P<minus>-?)(?:(?P<field>{'|'.join(filter(None, [*LEXEME_MARKS, FEED_FIELD]))}):)?"
    r'(?:"(?P<phrase>[^"]*)(?P<end>"?)|(?P<word>[^\s"]*))\s*',
    re.IGNORECASE,
)
_SLUG = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*", re.ASCII)


@dataclass(frozen=True, slots=True)
class SearchTerm:
    """Words next to each other that an entry must have, or must not have, anywhere or in one field."""

    tokens: tuple[str, ...]
    field: str = ""
    is_beginning: bool = False
    """The last word may go on."""

    @property
    def match(self) -> str:
        """The term in the syntax of SQLite's FTS5."""
        quoted = f'"{" ".join(self.tokens)}"{"*" if self.is_beginning else ""}'
        return f"{self.field} : {quoted}" if self.field else quoted

    def tsquery(self, joined: str = " <-> ", field: str | None = None) -> str:
        """The term in the syntax of PostgreSQL's type tsquery."""
        mark = LEXEME_MARKS[self.field if field is None else field]
        words = [f"'{mark}{token}'" for token in self.tokens]
        return f"({joined.join(words)}{':*' if self.is_beginning else ''})"


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """The terms of a search, and the slugs of the feeds that it names. `written` is the one spelling of them.

    Narrowed, it finds only entries that one of the searches `within` finds, if there are any, and none of `without`.
    """

    required: tuple[SearchTerm, ...]
    excluded: tuple[SearchTerm, ...]
    feeds: tuple[str, ...]
    excluded_feeds: tuple[str, ...]
    written: str
    within: tuple["SearchQuery", ...] = ()
    without: tuple["SearchQuery", ...] = ()

    @classmethod
    def read(cls, name: str, text: str) -> Self:
        """Reads the text of the parameter of that name. Raises PageQueryError."""
        if len(text) > MAX_SEARCH_CHARACTERS:
            raise PageQueryError(f"{name} has at most {MAX_SEARCH_CHARACTERS} characters.")
        if any("\ud800" <= character <= "\udfff" or character == REPLACEMENT for character in text):
            raise PageQueryError(f"{name} is not UTF-8.")
        found = dict(_read_terms(name, text.translate(_QUOTES)))
        if not found and text.strip("\0 \t\r\n"):
            raise PageQueryError(f"{name} has no word to search for, only signs.")
        if len(found) > MAX_SEARCH_TERMS:
            raise PageQueryError(f"{name} has at most {MAX_SEARCH_TERMS} words and phrases.")
        if len(" ".join(found)) > MAX_SEARCH_CHARACTERS:  # folded, some letters are several: it could not be read again
            raise PageQueryError(f"{name} has at most {MAX_SEARCH_CHARACTERS} characters.")
        required, excluded = (
            [term for is_excluded, term in found.values() if is_excluded is side] for side in (False, True)
        )
        return cls(
            tuple(term for term in required if isinstance(term, SearchTerm)),
            tuple(term for term in excluded if isinstance(term, SearchTerm)),
            tuple(slug for slug in required if isinstance(slug, str)),
            tuple(slug for slug in excluded if isinstance(slug, str)),
            written=" ".join(found),
        )

    @property
    def is_narrowed(self) -> bool:
        return bool(self.within or self.without)

    @property
    def has_phrases(self) -> bool:
        is_own = any(len(term.tokens) > 1 for term in (*self.required, *self.excluded))
        return is_own or any(each.has_phrases for each in (*self.within, *self.without))

    def match(self, feeds: Collection[int] = ()) -> str:
        """The query for SQLite's FTS5, for entries of these feeds; without any, of all."""
        required = [term.match for term in self.required]
        for group in ([f'"{_OWN}{feed}"' for feed in feeds], [f"({each.match()})" for each in self.within]):
            required += [f"({' OR '.join(group)})"] if group else []
        excluded = [term.match for term in self.excluded] + [f"({each.match()})" for each in self.without]
        found = " AND ".join(required) or f'"{EVERY_ENTRY_TOKEN}"'
        return f"({found}) NOT ({' OR '.join(excluded)})" if excluded else found

    def tsquery(self, feeds: Collection[int] = ()) -> str:
        """The query for PostgreSQL, for entries of these feeds; without any, of all."""
        within = [each.tsquery() for each in self.within]
        excluded = [term.tsquery() for term in self.excluded] + [f"({each.tsquery()})" for each in self.without]
        return self._tsquery(feeds, within, excluded, " <-> ")

    def loose_tsquery(self, feeds: Collection[int] = ()) -> str:
        """A query that the index answers alone, since it knows no positions: with the words of phrases anywhere."""
        within = [each.loose_tsquery() for each in self.within]
        excluded = [term.tsquery() for term in self.excluded if len(term.tokens) == 1]
        excluded += [f"({each.tsquery()})" for each in self.without if not each.has_phrases]
        return self._tsquery(feeds, within, excluded, " & ")

    @property
    def rank_tsquery(self) -> str:
        """The query that PostgreSQL ranks by: a word counts in each field that it may be in."""
        fields = [tuple(LEXEME_MARKS) if not term.field else (term.field,) for term in self.required]
        parts = zip(self.required, fields, strict=True)
        return " & ".join(f"({' | '.join(term.tsquery(field=name) for name in names)})" for term, names in parts)

    def _tsquery(self, feeds: Iterable[int], within: Iterable[str], excluded: Iterable[str], joined: str) -> str:
        parts = [term.tsquery(joined) for term in self.required]
        for group in ([f"'{FEED_MARK}{feed}'" for feed in feeds], [f"({each})" for each in within]):
            parts += [f"({' | '.join(group)})"] if group else []
        return " & ".join([*(parts or [f"'{EVERY_ENTRY}'"]), *(f"!{each}" for each in excluded)])


def _read_terms(name: str, text: str) -> Iterable[tuple[str, tuple[bool, SearchTerm | str]]]:
    """Yields the one spelling of each term, whether it is excluded, and the term; a feed is its slug."""
    text = text.replace("\0", " ").strip()
    place = 0
    while place < len(text):
        match = _TERM.match(text, place)
        assert match is not None
        place = match.end()
        excluded, field = bool(match["minus"]), (match["field"] or "").lower()
        if match["phrase"] is not None and not match["end"]:
            raise PageQueryError(f"{name} has a quotation mark without its end: “{match[0]}”.")
        value = fold_text(match["word"] if match["phrase"] is None else match["phrase"])
        term = _read_feed(name, value) if field == FEED_FIELD else _read_words(name, field, value, match)
        if term is not None:
            quoted = value if match["phrase"] is None else f'"{value}"'
            yield f"{match['minus']}{f'{field}:' if field else ''}{quoted}", (excluded, term)


def _read_feed(name: str, value: str) -> str:
    if not _SLUG.fullmatch(value):
        raise PageQueryError(f"{name} has feed: without a feed's slug, the last part of its address, as feed:news.")
    return value


def _read_words(name: str, field: str, value: str, match: re.Match[str]) -> SearchTerm | None:
    """Returns the term; None for signs without a word."""
    tokens = split_words(value, by_letter=not field)
    if not tokens:
        if field:
            raise PageQueryError(f"{name} has {field}: without a word or a phrase right after it.")
        return None
    is_beginning = match["phrase"] is None and value.endswith("*")
    if is_unspaced(value):  # of titles and names the index has only the whole run of such letters
        return SearchTerm(tuple(tokens), field, is_beginning=bool(field))
    if is_beginning and len(tokens[-1]) < MIN_BEGINNING_CHARACTERS:
        least = MIN_BEGINNING_CHARACTERS
        raise PageQueryError(f"{name} has “{value}”: a * comes after at least {least} letters of a word.")
    return SearchTerm(tuple(tokens), field, is_beginning)
