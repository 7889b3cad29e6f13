"""Reads the filters of feeds and combinations, and tells which entries they hide. Changes nothing.

Words are judged by the full-text index, as searches are. Patterns are expressions of RE2, whose time is linear in the
text; one that is slow even so is refused, since it would hold up the storing of feeds.
"""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import re2

from resources import database

from ..change_rows import Removal
from ..changes.log import ChangePage
from ..errors import FilterError, PageQueryError
from ..models import Entry, EntryFilter
from ..parser import documents, markup
from . import entry_search
from .search_terms import SearchQuery

MAX_FILTERS = 20
"""Of one feed, or of one category."""
MAX_PATTERN_CHARACTERS = 500
MAX_JUDGED_CHARACTERS = 20_000
"""Of each text of an entry, for patterns: as much as searches look at."""
MAX_TRIAL_SECONDS = 0.04
"""For a text of MAX_JUDGED_CHARACTERS. Usual patterns take a hundredth of it."""
_TRIAL_TEXT = ("Whales sing, 30% of them at night; ä, é, ß, Жук and 海 too. " * 400)[:MAX_JUDGED_CHARACTERS]
ROWS_AT_ONCE = 100
FILTERED = "filtered"
"""The reason of removals in the change log."""
_PATTERN_BYTES = 1 << 20
_REMEMBERED_PATTERNS = 500
EVERYTHING = SearchQuery.read("words", "")


def check_filter(given: EntryFilter) -> None:
    """Makes a filter fit to be stored. Raises FilterError."""
    given.words, given.pattern = (documents.strip_unstorable(text).strip() for text in (given.words, given.pattern))
    if bool(given.words) == bool(given.pattern):
        raise FilterError("words", "Give a filter either words or a pattern.")
    if given.words:
        given.field = ""
        _check_words(_read_words(given), is_of_category=given.category_id is not None)
        return
    if given.category_id is not None:
        raise FilterError("pattern", "Filters of a category have tags alone.")
    if len(given.pattern) > MAX_PATTERN_CHARACTERS:
        raise FilterError("pattern", f"A pattern has at most {MAX_PATTERN_CHARACTERS} characters.")
    given.field = given.field or "title"
    if (given.field, given.field) not in EntryFilter.FIELDS:
        raise FilterError("field", "Patterns are for title, text, author, tag or link.")
    _check_pattern(given.pattern)


def _read_words(given: EntryFilter) -> SearchQuery:
    try:
        return SearchQuery.read("A filter", given.words)
    except PageQueryError as error:
        raise FilterError("words", str(error)) from error


def _check_words(search: SearchQuery, *, is_of_category: bool) -> None:
    if search.feeds or search.excluded_feeds:
        raise FilterError("words", "Filters take no feed: terms.")
    if is_of_category and (search.excluded or any(term.field != "tag" for term in search.required)):
        raise FilterError("words", 'Filters of a category have tags alone: tag:sea, or tag:"deep sea".')


def _check_pattern(pattern: str) -> None:
    """Refuses a pattern with long repetitions of much, by a trial: it would take a second for a long entry."""
    expression = compile_pattern(pattern)
    began = time.thread_time()
    expression.search(_TRIAL_TEXT)
    if time.thread_time() - began > MAX_TRIAL_SECONDS:
        raise FilterError("pattern", "This expression takes too long: repeat less in it, as with .* for .{1,500}")


@lru_cache(maxsize=_REMEMBERED_PATTERNS)
def compile_pattern(pattern: str) -> Any:
    """Compiles a pattern, for which case does not count. Raises FilterError with the part that is wrong."""
    options = re2.Options()
    options.case_sensitive = False
    options.log_errors = False
    options.max_mem = _PATTERN_BYTES
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        text = error.args[0] if error.args else ""
        why = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
        raise FilterError("pattern", f"This is no regular expression of RE2: {why}") from error


def find_hidden(filters: Sequence[EntryFilter], numbers: Collection[int]) -> set[int]:
    """Returns those of the entries that the filters of their feed hide. Raises DatabaseError."""
    readable = [each for each in filters if _is_readable(each)]
    matches = {each.pk: _find_matches(each, numbers) for each in readable if each.words}
    matches |= _match_patterns([each for each in readable if each.pattern], numbers)
    hidden = set().union(*(matches[each.pk] for each in readable if each.action == EntryFilter.HIDE))
    shown = [matches[each.pk] for each in readable if each.action == EntryFilter.ONLY]
    return hidden | (set(numbers) - set().union(*shown) if shown else set())


def _is_readable(stored: EntryFilter) -> bool:
    """False for a filter that this version cannot read, as of a later one: it is left out."""
    try:
        _read_words(stored)
        compile_pattern(stored.pattern)
    except FilterError:
        return False
    return not stored.pattern or (stored.field, stored.field) in EntryFilter.FIELDS


def _find_matches(given: EntryFilter, numbers: Collection[int]) -> set[int]:
    return entry_search.judge_entries(_read_words(given), numbers)


def _match_patterns(filters: Sequence[EntryFilter], numbers: Collection[int]) -> dict[int, set[int]]:
    """Returns the matches of each of these filters."""
    found: dict[int, set[int]] = {each.pk: set() for each in filters}
    names = {each.field for each in filters}
    for part in database.split_portions(numbers if filters else (), ROWS_AT_ONCE):
        for row in Entry.objects.filter(pk__in=part).only("title", "link", "data"):
            texts = _read_texts(row, names)
            for each in filters:
                expression = compile_pattern(each.pattern)
                if any(expression.search(text[:MAX_JUDGED_CHARACTERS]) for text in texts[each.field]):
                    found[each.pk].add(row.pk)
    return found


def _read_texts(row: Entry, names: Collection[str]) -> Mapping[str, Sequence[str]]:
    """The texts of an entry that patterns of these fields look at."""
    read = documents.entry_from_json(row.data)
    bodies = (read.summary, read.content, read.full) if "text" in names else ()
    return {
        "title": (read.title,),
        "text": [markup.html_to_text(body) for body in bodies if body],
        "author": [author.name for author in read.authors],
        "tag": [each.label or each.term for each in read.categories],
        "link": (read.link,),
    }


def narrow_search(search: SearchQuery, category_id: int) -> SearchQuery:
    """Returns the search for what the filters of a category show. Raises DatabaseError."""
    filters = [each for each in EntryFilter.objects.filter(category_id=category_id) if _is_readable(each)]
    within, without = (
        tuple(_read_words(each) for each in filters if each.action == action)
        for action in (EntryFilter.ONLY, EntryFilter.HIDE)
    )
    return replace(search, within=within, without=without)


def narrow_page(page: ChangePage) -> ChangePage:
    """Returns the changes of a combination as its filters show them. Raises DatabaseError.

    An entry that they hide is left out if the client cannot have it, and is a removal else.
    """
    scope = page.cursor.scope
    search = narrow_search(EVERYTHING, scope.row) if scope.kind == "c" else EVERYTHING
    if not search.is_narrowed:
        return page
    shown = entry_search.judge_entries(search, [row.pk for row in page.changes if isinstance(row, Entry)])
    return replace(page, changes=tuple(_narrow_changes(page, shown)))


def _narrow_changes(page: ChangePage, shown: Collection[int]) -> Iterator[Entry | Removal]:
    for row in page.changes:
        if isinstance(row, Removal) or row.pk in shown:
            yield row
        elif row.pk not in page.new:
            yield Removal(feed_number=row.feed_id, entry_number=row.pk, reason=FILTERED)
