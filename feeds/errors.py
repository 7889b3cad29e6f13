"""The errors of feeds. The text of each is a sentence for a person.

PURE: imports neither Django, Celery, Redis nor the network.
"""


class FeedError(Exception):
    """The base of all. Its text is a sentence for the person who can do something about it."""


class ParseError(FeedError):
    """The body is no feed, or exceeds the limits."""


class OpmlError(FeedError):
    """The file is no list of feeds, or exceeds the limits."""


class FeedAddressError(FeedError):
    """The text is no address of a feed."""


class MoveError(FeedError):
    """A feed cannot be at that address."""


class PageQueryError(FeedError):
    """The parameters name no page. The message says which one is wrong, and its right form."""


class UnknownFeedError(FeedError):
    """There is no such feed or category."""


class SearchTimeoutError(FeedError):
    """The search takes longer than FEEDS_SEARCH_SECONDS."""


class FilterError(FeedError):
    """A filter of entries that cannot be used. `part` is the name of its field that is wrong."""

    def __init__(self, part: str, text: str) -> None:
        super().__init__(text)
        self.part = part


class CursorError(FeedError):
    """The text is no cursor of the change log."""


class CursorExpiredError(CursorError):
    """The log cannot be read on from this cursor: a new copy has to be made."""
