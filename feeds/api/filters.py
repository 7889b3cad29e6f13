"""The filters of feeds, as the API takes and gives them."""

from collections import defaultdict
from collections.abc import Collection, Sequence
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
        default="hide", description="hide: entries that match. only: those that match none of these filters."
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
