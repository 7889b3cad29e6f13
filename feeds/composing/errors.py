"""The errors of composing. PURE."""

from feeds.errors import FeedError


class AskError(FeedError):
    """Parameters that ask for no page. The message says which, and what belongs there."""


class UnknownError(FeedError):
    """There is no such feed or category."""
